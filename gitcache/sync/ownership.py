"""Which repositories this replica follows: taken where placement says so, given make-before-break.

The port tells who holds what; the rules are here. One round at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache

import structlog

from fleet.errors import TowlineError
from fleet.identity import RepositoryId
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from gitcache.domain.placement import place
from gitcache.ports import Replicas

log = structlog.get_logger(__name__)

_ROUND_SECONDS = 5.0
_PREPARING_AT_ONCE = 2
_PREPARE_AGAIN_SECONDS = 5.0

_placed = lru_cache(maxsize=2)(place)

Verb = Callable[[RepositoryId], Awaitable[None]]


class Ownership:
    """Sees to it that exactly those repositories are followed here that this replica holds.

    `wanted` gives all repositories, the same on each replica, `followed` those followed here.
    `begin` and `end` start and stop following; `prepare` fetches what a new owner needs while
    the old one still works.
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
        self._slots = asyncio.Semaphore(_PREPARING_AT_ONCE)
        self._wake = asyncio.Event()
        self.tasks = Tasks("ownership")

    def start(self) -> None:
        """Begin to take what is ours."""
        self.tasks.forever("rounds", self._run())

    async def stop(self) -> None:
        """End following; the leases go with the port."""
        await self.tasks.stop()
        for repository_id in tuple(self._followed()):
            await self._end(repository_id)

    def look(self) -> None:
        """Something has changed: repositories, members, owners."""
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
            await self._clock.sleep(_ROUND_SECONDS)
            self._wake.set()

    async def _round(self) -> None:
        wanted = frozenset(self._wanted())
        names = [member.name for member in self._replicas.members()]
        placed = _placed(wanted, tuple(names))
        for repository_id in frozenset(self._followed()) - wanted:
            await self._end(repository_id)
        for repository_id in wanted:
            try:
                await self._settle(repository_id, placed.get(repository_id))
            except TowlineError as error:
                log.info("ownership waits", repository=repository_id, reason=error.message)
                break

    async def _settle(self, repository_id: RepositoryId, best: str | None) -> None:
        is_best = best == self._replicas.me.name
        if not self._replicas.holds(repository_id):
            if repository_id in self._followed():
                await self._end(repository_id)
            if is_best:
                await self._take(repository_id)
        elif repository_id not in self._followed():
            await self._begin(repository_id)
        elif best and not is_best and self._replicas.prepared(repository_id) == best:
            await self._end(repository_id)
            log.info("repository handed over", repository=repository_id, to=best)

    async def _take(self, repository_id: RepositoryId) -> None:
        owner = self._replicas.owner(repository_id)
        if owner is None or owner == self._replicas.me:
            if await self._replicas.claim(repository_id):
                await self._begin(repository_id)
        elif self._replicas.prepared(repository_id) != self._replicas.me.name:
            self._prepare_soon(repository_id)

    def _prepare_soon(self, repository_id: RepositoryId) -> None:
        if repository_id not in self._preparing:
            self._preparing.add(repository_id)
            self.tasks.spawn(f"prepare/{repository_id}", self._prepare_one(repository_id))

    async def _prepare_one(self, repository_id: RepositoryId) -> None:
        try:
            async with self._slots:
                await self._prepare(repository_id)
            await self._replicas.prepare(repository_id)
        except TowlineError as error:
            log.info("cannot take over yet", repository=repository_id, reason=error.message)
            await self._clock.sleep(_PREPARE_AGAIN_SECONDS)
        finally:
            self._preparing.discard(repository_id)
