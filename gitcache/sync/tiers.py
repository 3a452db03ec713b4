"""Tiered content stores: reads the nearest first and fills it from the farther ones."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from core.errors import TowlineError, Unavailable
from core.runtime.single_flight import SingleFlight
from core.runtime.tasks import Tasks
from gitcache.ports import ContentStore

log = structlog.get_logger(__name__)

_MAX_PENDING_COPIES = 1024
_STOP_SECONDS = 5.0


class TieredContent:
    """Stores content in the nearest store, and copies it to farther stores in the background.

    Only logs failed copies, because content can be rendered again. Concurrent reads of a digest
    search once. If the nearest store fails to write, calls `make_room` and retries once.
    """

    def __init__(
        self,
        nearest: ContentStore,
        farther: Sequence[ContentStore],
        make_room: Callable[[], Awaitable[None]],
    ) -> None:
        self._nearest = nearest
        self._farther = farther
        self._make_room = make_room
        self._flights: SingleFlight[str, bytes | None] = SingleFlight()
        self._freeing: SingleFlight[str, None] = SingleFlight()
        self._pending_copies = 0
        self._copied = asyncio.Event()
        self.tasks = Tasks("content")

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`. Raises Unavailable if not found and a store failed."""
        data = await self._nearest.get(digest)
        if data is not None or not self._farther:
            return data
        return await self._flights.once(digest, lambda: self._search_farther(digest))

    async def put(self, digest: str, data: bytes) -> None:
        """Implements `ContentStore.put`; returns after the write to the nearest store."""
        await self._put_nearest(digest, data)
        if self._farther and self._pending_copies < _MAX_PENDING_COPIES:
            self._pending_copies += 1
            self.tasks.spawn("copy", self._copy(digest, data))

    async def stop(self) -> None:
        """Waits some seconds for running copies, which may be the only other ones."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while self._pending_copies:
                    self._copied.clear()
                    await self._copied.wait()
        await self.tasks.stop()

    async def _search_farther(self, digest: str) -> bytes | None:
        failure: Unavailable | None = None
        for store in self._farther:
            try:
                data = await store.get(digest)
            except Unavailable as error:
                failure = error
                continue
            if data is not None:
                await self._put_nearest(digest, data)
                return data
        if failure is not None:
            raise failure
        return None

    async def _put_nearest(self, digest: str, data: bytes) -> None:
        try:
            await self._nearest.put(digest, data)
        except Unavailable:
            await self._freeing.once("room", self._make_room)
            await self._nearest.put(digest, data)

    async def _copy(self, digest: str, data: bytes) -> None:
        try:
            for store in self._farther:
                await self._copy_to(store, digest, data)
        finally:
            self._pending_copies -= 1
            self._copied.set()

    async def _copy_to(self, store: ContentStore, digest: str, data: bytes) -> None:
        try:
            await store.put(digest, data)
        except TowlineError as error:
            log.info("copy to farther store failed", digest=digest, reason=error.message)
