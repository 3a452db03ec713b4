"""Takes small packs into clones: git starts while the pack is still on its way."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from gitcache.mirror.clone import Clone
from gitcache.mirror.runner import GitError

_SECONDS = 60.0


class PackTaker:
    """git, waiting for one pack at the other end of a pipe."""

    def __init__(self, clone: Clone) -> None:
        pack, self._pipe = os.pipe()
        self._given = False
        taking = clone.index(pack, seconds=_SECONDS) if clone.is_lean() else clone.unpack(pack)
        self._running = asyncio.ensure_future(taking)

    async def take(self, pack: bytes) -> None:
        """Have the pack in the clone. GitError: it is broken, or holds what git forbids."""
        self._given = True
        await asyncio.to_thread(self._write, pack)
        await self._running

    async def close(self) -> None:
        """Let git end; without a pack it leaves nothing behind."""
        if not self._given:
            os.close(self._pipe)
        with suppress(GitError):
            await self._running

    def _write(self, pack: bytes) -> None:
        with suppress(BrokenPipeError), os.fdopen(self._pipe, "wb") as file:
            file.write(pack)


@asynccontextmanager
async def taker(clone: Clone) -> AsyncGenerator[PackTaker]:
    """A taker for a clone; what it has not been given by the end never comes."""
    one = PackTaker(clone)
    try:
        yield one
    finally:
        await one.close()
