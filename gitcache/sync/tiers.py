"""Content stores behind each other: nearer ones are asked first, and filled from farther ones."""

from collections.abc import Sequence

import structlog

from fleet.errors import TowlineError
from fleet.runtime.tasks import Tasks
from gitcache.ports import ContentStore
from gitcache.sync.flights import Flights

log = structlog.get_logger(__name__)

_MOST_WAITING = 1024


class TieredContent:
    """The nearest store is ours and must take what is put; farther ones get it a little later.

    What a farther one cannot take is logged and left: each holds only copies of what can be
    made again. A digest that many ask for at once is looked for once.
    """

    def __init__(self, nearest: ContentStore, farther: Sequence[ContentStore]) -> None:
        self._nearest = nearest
        self._farther = farther
        self._flights: Flights[bytes | None] = Flights()
        self._waiting = 0
        self.tasks = Tasks("content")

    async def get(self, digest: str) -> bytes | None:
        """As `ContentStore.get`."""
        data = await self._nearest.get(digest)
        if data is not None or not self._farther:
            return data
        return await self._flights.once(digest, lambda: self._search(digest))

    async def put(self, digest: str, data: bytes) -> None:
        """As `ContentStore.put`; returns when the nearest store has it."""
        await self._nearest.put(digest, data)
        if self._farther and self._waiting < _MOST_WAITING:
            self._waiting += 1
            self.tasks.spawn("copy", self._copy(digest, data))

    async def stop(self) -> None:
        """End copying."""
        await self.tasks.stop()

    async def _search(self, digest: str) -> bytes | None:
        for store in self._farther:
            data = await store.get(digest)
            if data is not None:
                await self._nearest.put(digest, data)
                return data
        return None

    async def _copy(self, digest: str, data: bytes) -> None:
        try:
            for store in self._farther:
                await self._copy_to(store, digest, data)
        finally:
            self._waiting -= 1

    async def _copy_to(self, store: ContentStore, digest: str, data: bytes) -> None:
        try:
            await store.put(digest, data)
        except TowlineError as error:
            log.info("no second copy", digest=digest, reason=error.message)
