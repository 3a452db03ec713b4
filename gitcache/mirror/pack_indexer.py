"""Adds small packs to clones; git starts while the server prepares its response.

An earlier start would block the event loop and so delay the request.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from core.runtime.tasks import run_to_completion
from gitcache.mirror.clone import Clone
from gitcache.mirror.runner import GitError

_SECONDS = 60.0
_PIPE_BYTES = 4096
"""Bytes that a pipe buffers at least without a reader."""


class PackIndexer:
    """A git process that waits for one pack on a pipe."""

    def __init__(self, clone: Clone) -> None:
        self._clone = clone
        self._pipe: int | None = None
        self._running: asyncio.Future[None] | None = None

    def start(self) -> asyncio.Future[None]:
        """Starts git; the returned future completes when git exits."""
        clone, (pack, self._pipe) = self._clone, os.pipe()
        indexing = clone.index(pack, seconds=_SECONDS) if clone.is_lean() else clone.unpack(pack)
        self._running = asyncio.ensure_future(indexing)
        return self._running

    async def add(self, pack: bytes) -> None:
        """Adds the pack to the clone. Raises GitError if it is broken or forbidden."""
        running = self._running or self.start()
        if self._pipe is not None:
            await self._send(self._pipe, pack)
        await running

    async def close(self) -> None:
        """Ends git, which leaves nothing behind without a pack."""
        if self._pipe is not None:
            os.close(self._pipe)
        if self._running is not None:
            with suppress(GitError):
                await self._running

    async def _send(self, pipe: int, pack: bytes) -> None:
        self._pipe = None
        if len(pack) <= _PIPE_BYTES:
            _write(pipe, pack)
        else:
            await run_to_completion(asyncio.to_thread(_write, pipe, pack))


def _write(pipe: int, pack: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(pack)


@asynccontextmanager
async def open_pack_indexer(clone: Clone) -> AsyncGenerator[PackIndexer]:
    """Provides a `PackIndexer` for a clone and closes it."""
    indexer = PackIndexer(clone)
    try:
        yield indexer
    finally:
        await indexer.close()
