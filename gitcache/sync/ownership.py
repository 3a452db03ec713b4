"""Ownership rules: takes repositories by placement, hands them over make-before-break.

The `Replicas` port knows the current owners. One round runs at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache

import structlog

from core.errors import TowlineError
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from gitcache.domain.placement import assign_to_replicas, rank_replicas
from gitcache.ports import Replicas

log = structlog.get_logger(__name__)

_ROUND_SECONDS = 5.0
_UNOWNED_ROUND_SECONDS = 1.0
_PREPARING_AT_ONCE = 2
_PREPARE_AGAIN_SECONDS = 5.0
_UNOWNED_SECONDS = 3.0
"""Seconds that a repository may have no owner before the next-ranked replica takes it; multiplied
by that replica's rank."""

_placed = lru_cache(maxsize=2)(assign_to_replicas)

Verb = Callable[[RepositoryId], Awaitable[None]]


class Ownership:
    """Follows exactly the repositories whose lease this replica holds.

    `wanted` returns all repositories, the same on each replica; `followed` those followed here.
    `begin` and `end` start and stop following. `prepare` fetches the data for a new owner while
    the old owner still serves.
    """

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        wanted: Callable[[], Collection[RepositoryId]],
        followed: Callable[[], Collection[RepositoryId]],
        *,
        begin: Verb,
        end: Verb,
        prepare: Verb,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._wanted = wanted
        self._followed = followed
        self._begin = begin
        self._end = end
        self._prepare = prepare
        self._preparing: set[RepositoryId] = set()
        self._unowned: dict[RepositoryId, float] = {}
        self._slots = asyncio.Semaphore(_PREPARING_AT_ONCE)
        self._wake = asyncio.Event()
        self.tasks = Tasks("ownership")

    def start(self) -> None:
        """Starts the rounds."""
        self.tasks.forever("rounds", self._run())

    async def stop(self) -> None:
        """Stops following; the port releases the leases."""
        await self.tasks.stop()
        for repository_id in tuple(self._followed()):
            await self._end(repository_id)

    def look(self) -> None:
        """Requests a round after a change of repositories, members or owners."""
        self._wake.set()

    async def _run(self) -> None:
        sweep = self.tasks.forever("sweep", self._sweep())
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._round()
        finally:
            sweep.cancel()

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(_UNOWNED_ROUND_SECONDS if self._unowned else _ROUND_SECONDS)
            self._wake.set()

    async def _round(self) -> None:
        wanted = frozenset(self._wanted())
        names = [member.name for member in self._replicas.members()]
        placed = _placed(wanted, tuple(names))
        for repository_id in frozenset(self._followed()) - wanted:
            await self._end(repository_id)
        for repository_id in self._unowned.keys() - wanted:
            del self._unowned[repository_id]
        for repository_id in wanted:
            try:
                best = placed.get(repository_id)
                if self._is_left(repository_id, names):
                    best = self._replicas.me.name
                await self._settle(repository_id, best)
            except TowlineError as error:
                log.info("ownership delayed", repository=repository_id, reason=error.message)
                break

    def _is_left(self, repository_id: RepositoryId, names: Sequence[str]) -> bool:
        """True if nobody has owned the repository for so long that this replica should take it.

        Replicas with different sets of repositories may disagree on the best replica, and one
        without the repository takes nothing.
        """
        if self._replicas.owner(repository_id) is not None or self._replicas.me.name not in names:
            self._unowned.pop(repository_id, None)
            return False
        now = self._clock.monotonic()
        since = self._unowned.setdefault(repository_id, now)
        rank = rank_replicas(repository_id, names).index(self._replicas.me.name)
        return now - since >= _UNOWNED_SECONDS * (rank + 1)

    async def _settle(self, repository_id: RepositoryId, best: str | None) -> None:
        is_best = best == self._replicas.me.name
        if not self._replicas.holds_lease(repository_id):
            if repository_id in self._followed():
                await self._end(repository_id)
            if is_best:
                await self._take(repository_id)
        elif repository_id not in self._followed():
            await self._begin(repository_id)
        elif best and not is_best and self._replicas.prepared_replica(repository_id) == best:
            await self._end(repository_id)
            log.info("repository handed over", repository=repository_id, to=best)

    async def _take(self, repository_id: RepositoryId) -> None:
        owner = self._replicas.owner(repository_id)
        if owner is None or owner == self._replicas.me:
            if await self._replicas.claim(repository_id):
                await self._begin(repository_id)
        elif self._replicas.prepared_replica(repository_id) != self._replicas.me.name:
            self._prepare_soon(repository_id)

    def _prepare_soon(self, repository_id: RepositoryId) -> None:
        if repository_id not in self._preparing:
            self._preparing.add(repository_id)
            self.tasks.spawn(f"prepare/{repository_id}", self._prepare_one(repository_id))

    async def _prepare_one(self, repository_id: RepositoryId) -> None:
        try:
            async with self._slots:
                await self._prepare(repository_id)
            await self._replicas.announce_prepared(repository_id)
        except TowlineError as error:
            log.info("not ready to take over", repository=repository_id, reason=error.message)
            await self._clock.sleep(_PREPARE_AGAIN_SECONDS)
        finally:
            self._preparing.discard(repository_id)
