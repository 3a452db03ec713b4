"""Repositories that nobody would take, as replicas that know of different ones place them."""

import asyncio
from collections.abc import Collection

from core.identity import RepositoryId
from gitcache.domain.placement import assign_to_replicas
from gitcache.sync.ownership import Ownership
from tests.fakes.clock import FakeClock
from tests.fakes.replicas import Hub, HubReplicas

NAMES = ("a", "b", "c")
OLD = [RepositoryId(f"r{number}") for number in range(20)]


class Follows:
    """A replica that knows of some repositories and follows what falls to it."""

    def __init__(
        self, hub: Hub, name: str, clock: FakeClock, known: Collection[RepositoryId]
    ) -> None:
        self.followed: set[RepositoryId] = set()
        self.replicas = HubReplicas(hub, name)
        self.ownership = Ownership(
            self.replicas,
            clock,
            lambda: known,
            lambda: self.followed,
            start_following=self._begin,
            stop_following=self._end,
            prepare=self._prepare,
        )

    async def start(self) -> None:
        self.ownership.start()
        await self.replicas.start(lambda news: self.ownership.request_round())

    async def _begin(self, repository_id: RepositoryId) -> None:
        self.followed.add(repository_id)

    async def _end(self, repository_id: RepositoryId) -> None:
        self.followed.discard(repository_id)
        await self.replicas.release(repository_id)

    async def _prepare(self, repository_id: RepositoryId) -> None:
        """Nothing to fetch."""


def disputed() -> tuple[RepositoryId, dict[str, list[RepositoryId]]]:
    """A repository that each replica takes for another one's, by what else it knows of."""
    views = {"a": OLD, "b": OLD[:3], "c": OLD[10:]}
    for number in range(1000):
        new = RepositoryId(f"new{number}")
        known = {name: [*views[name], new] for name in NAMES}
        if all(assign_to_replicas(known[name], NAMES)[new] != name for name in NAMES):
            return new, known
    raise AssertionError("they agree on everything")


async def test_a_repository_is_taken_though_each_takes_it_for_anothers() -> None:
    """Some restarted and do not know all repositories yet: they see other loads."""
    new, known = disputed()
    hub, clock = Hub(), FakeClock()
    replicas = [Follows(hub, name, clock, known[name]) for name in NAMES]
    for one in replicas:
        await one.start()
    await clock.advance(1)
    assert new not in hub.owners
    await clock.advance(20)
    holder = hub.owners[new]
    assert [one.replicas.me.name for one in replicas if new in one.followed] == [holder]
    await clock.advance(60)
    assert hub.owners[new] == holder
    for one in replicas:
        await one.ownership.stop()


async def test_a_repository_unknown_to_its_best_replica_is_claimed() -> None:
    hub, clock = Hub(), FakeClock()
    best = assign_to_replicas({OLD[0]}, NAMES)[OLD[0]]
    replicas = [Follows(hub, name, clock, [] if name == best else [OLD[0]]) for name in NAMES]
    for one in replicas:
        await one.start()
    await clock.advance(20)
    assert hub.owners[OLD[0]] != best
    for one in replicas:
        await one.ownership.stop()
    await asyncio.sleep(0)
