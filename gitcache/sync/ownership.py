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
_PREPARATION_RETRY_SECONDS = 5.0
_UNOWNED_SECONDS = 3.0
"""Seconds that a repository may have no owner before the next-ranked replica takes it; multiplied
by that replica's rank."""

_cached_placement = lru_cache(maxsize=2)(assign_to_replicas)

RepositoryAction = Callable[[RepositoryId], Awaitable[None]]


class Ownership:
    """Follows exactly the repositories whose lease this replica holds.

    `repositories` returns all of them, the same on each replica; `followed` those followed here.
    `prepare` fetches the data for a new owner while
    the old owner still serves.
    """

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        repositories: Callable[[], Collection[RepositoryId]],
        followed: Callable[[], Collection[RepositoryId]],
        *,
        start_following: RepositoryAction,
        stop_following: RepositoryAction,
        prepare: RepositoryAction,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._repositories = repositories
        self._followed = followed
        self._start_following = start_following
        self._stop_following = stop_following
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
            await self._stop_following(repository_id)

    def request_round(self) -> None:
        """Requests a round after a change of repositories, members or owners."""
        self._wake.set()

    async def _run(self) -> None:
        sweep = self.tasks.forever("sweep", self._request_rounds())
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._run_round()
        finally:
            sweep.cancel()

    async def _request_rounds(self) -> None:
        while True:
            await self._clock.sleep(_UNOWNED_ROUND_SECONDS if self._unowned else _ROUND_SECONDS)
            self._wake.set()

    async def _run_round(self) -> None:
        repositories = frozenset(self._repositories())
        names = [member.name for member in self._replicas.members()]
        placement = _cached_placement(repositories, tuple(names))
        for repository_id in frozenset(self._followed()) - repositories:
            await self._stop_following(repository_id)
        for repository_id in self._unowned.keys() - repositories:
            del self._unowned[repository_id]
        for repository_id in repositories:
            try:
                best = placement.get(repository_id)
                if self._is_abandoned(repository_id, names):
                    best = self._replicas.me.name
                await self._reconcile(repository_id, best)
            except TowlineError as error:
                log.info("ownership delayed", repository=repository_id, reason=error.message)
                break

    def _is_abandoned(self, repository_id: RepositoryId, names: Sequence[str]) -> bool:
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

    async def _reconcile(self, repository_id: RepositoryId, best: str | None) -> None:
        is_best = best == self._replicas.me.name
        if not self._replicas.holds_lease(repository_id):
            if repository_id in self._followed():
                await self._stop_following(repository_id)
            if is_best:
                await self._claim_or_prepare(repository_id)
        elif repository_id not in self._followed():
            await self._start_following(repository_id)
        elif best and not is_best and self._replicas.prepared_replica(repository_id) == best:
            await self._stop_following(repository_id)
            log.info("repository handed over", repository=repository_id, to=best)

    async def _claim_or_prepare(self, repository_id: RepositoryId) -> None:
        owner = self._replicas.owner(repository_id)
        if owner is None or owner == self._replicas.me:
            if await self._replicas.claim(repository_id):
                await self._start_following(repository_id)
        elif self._replicas.prepared_replica(repository_id) != self._replicas.me.name:
            self._schedule_preparation(repository_id)

    def _schedule_preparation(self, repository_id: RepositoryId) -> None:
        if repository_id not in self._preparing:
            self._preparing.add(repository_id)
            self.tasks.spawn(f"prepare/{repository_id}", self._prepare_repository(repository_id))

    async def _prepare_repository(self, repository_id: RepositoryId) -> None:
        try:
            async with self._slots:
                await self._prepare(repository_id)
            await self._replicas.announce_prepared(repository_id)
        except TowlineError as error:
            log.info("not ready to take over", repository=repository_id, reason=error.message)
            await self._clock.sleep(_PREPARATION_RETRY_SECONDS)
        finally:
            self._preparing.discard(repository_id)
