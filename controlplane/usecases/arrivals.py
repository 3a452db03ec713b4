"""Reading deploy tokens: of agents that come at the same time by one transaction."""

import asyncio

from controlplane.domain.people import Token
from controlplane.ports import Store
from fleet.errors import TowlineError
from fleet.identity import ClusterId

_AT_ONCE = 500
Arrival = tuple[Token, ClusterId | None]
_Answer = Arrival | TowlineError | None


class Arrivals:
    """After a restart all agents come at once: one at a time the store would be what they wait for.

    Whoever holds the lock reads for all who wait by then. What is asked for later is read later,
    so nobody gets an answer that is older than the question.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[_Answer]] = {}

    async def find(self, hash: str) -> Arrival | None:
        """The agent's token with this hash, and its cluster if that is there; None: no such token.

        Unavailable: the store is away.
        """
        answer = self._waiting.get(hash)
        if answer is None:
            answer = self._waiting[hash] = asyncio.get_running_loop().create_future()
        async with self._lock:
            while not answer.done():
                await self._read_some()
        found = answer.result()
        if isinstance(found, TowlineError):
            raise found
        return found

    async def _read_some(self) -> None:
        """Answer some of those who wait; if this is cancelled, the next holder does."""
        asked = dict(list(self._waiting.items())[:_AT_ONCE])
        for hash in asked:
            del self._waiting[hash]
        try:
            found = await self._read(list(asked))
        except TowlineError as error:
            for answer in asked.values():
                answer.set_result(error)
        except BaseException:
            self._waiting = asked | self._waiting
            raise
        else:
            for hash, answer in asked.items():
                answer.set_result(found.get(hash))

    async def _read(self, hashes: list[str]) -> dict[str, Arrival]:
        async with self._store.read() as tx:
            rows = await tx.tokens.select(hash=hashes)
            clusters = await tx.clusters.select(id={row.cluster_id for row in rows})
        known = {one.id: one.id for one in clusters}
        return {row.hash: (row, known.get(ClusterId(row.cluster_id or ""))) for row in rows}
