"""Takes small packs into clones: git starts while the server still looks for what to send.

Not sooner: starting a program holds up the loop, and so the request.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from fleet.runtime.tasks import finished
from gitcache.mirror.clone import Clone
from gitcache.mirror.runner import GitError

_SECONDS = 60.0
_AT_ONCE = 4096
"""Bytes that an empty pipe takes at least, without anybody to read them."""


class PackTaker:
    """git, waiting for one pack at the other end of a pipe."""

    def __init__(self, clone: Clone) -> None:
        self._clone = clone
        self._pipe: int | None = None
        self._running: asyncio.Future[None] | None = None

    def start(self) -> asyncio.Future[None]:
        """Start git; what is given back is done once it has ended."""
        clone, (pack, self._pipe) = self._clone, os.pipe()
        taking = clone.index(pack, seconds=_SECONDS) if clone.is_lean() else clone.unpack(pack)
        self._running = asyncio.ensure_future(taking)
        return self._running

    async def take(self, pack: bytes) -> None:
        """Have the pack in the clone. GitError: it is broken, or holds what git forbids."""
        running = self._running or self.start()
        if self._pipe is not None:
            await self._give(self._pipe, pack)
        await running

    async def close(self) -> None:
        """Let git end; without a pack it leaves nothing behind."""
        if self._pipe is not None:
            os.close(self._pipe)
        if self._running is not None:
            with suppress(GitError):
                await self._running

    async def _give(self, pipe: int, pack: bytes) -> None:
        self._pipe = None
        if len(pack) <= _AT_ONCE:
            _write(pipe, pack)
        else:
            await finished(asyncio.to_thread(_write, pipe, pack))


def _write(pipe: int, pack: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(pack)


@asynccontextmanager
async def taker(clone: Clone) -> AsyncGenerator[PackTaker]:
    """A taker for a clone; what it has not been given by the end never comes."""
    one = PackTaker(clone)
    try:
        yield one
    finally:
        await one.close()
