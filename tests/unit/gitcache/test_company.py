"""Several git caches in company: who follows, who renders, and what a change of owner keeps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import RenderRequest, RepositorySpec, RepositoryState, SourceFolder
from gitcache.domain.messages import Operation, Query, Result
from gitcache.domain.placement import assign_to_replicas
from gitcache.ports import NotOwner, ReplicaMember, StatePublished
from gitcache.sync.cache import FollowedSources, GitCache, ReplicaNetwork
from gitcache.sync.follower import FollowerPorts, PollIntervals
from gitcache.sync.render_service import RenderPorts, RenderService
from tests.fakes.clock import FakeClock
from tests.fakes.gitcache import (
    FakeCharts,
    FakeContent,
    FakeGit,
    FakeImages,
    FakeMemo,
    FakeWorkers,
    fake_signer,
    sha_of,
)
from tests.fakes.replicas import Hub, HubPeers, HubReplicas

ID = RepositoryId("r")
SPEC = RepositorySpec(ID, "https://git.test/r", frozenset({"main"}))
MAIN = "refs/heads/main"
FILES = {"web/a.yaml": b"a"}


class Company:
    """Replicas of one git server, each with a copy of its own."""

    def __init__(self) -> None:
        self.hub, self.peers, self.clock = Hub(), HubPeers(), FakeClock()
        self.content, self.workers = FakeContent(), FakeWorkers()
        self.server = FakeGit()
        self.copies: dict[str, FakeGit] = {}
        self.caches: dict[str, GitCache] = {}
        self.states: dict[str, list[RepositoryState]] = {}

    async def join(self, *names: str) -> None:
        """Start replicas that follow the repository."""
        for name in names:
            copy = self.copies[name] = FakeGit()
            for shared in ("refs", "served", "objects", "files", "roots"):
                setattr(copy, shared, getattr(self.server, shared))
            replicas = HubReplicas(self.hub, name)
            charts = FakeCharts()
            renders = RenderService(
                RenderPorts(copy, self.content, FakeMemo(), self.workers, charts, FakeImages()),
                self.clock,
            )
            cache = GitCache(
                FollowedSources(FollowerPorts(copy, copy, copy, replicas), PollIntervals(10, 100)),
                renders,
                self.content,
                self.clock,
                ReplicaNetwork(replicas, self.peers),
                fake_signer(self.clock),
            )
            self.caches[name] = self.peers.caches[name] = cache
            self.states[name] = []
            cache.on_state(self.states[name].append)
            await cache.start()
            cache.follow(SPEC)
        await self.clock.advance(6)

    async def leave(self, name: str, *, killed: bool = False) -> None:
        """A replica ends, by itself or not."""
        cache = self.caches.pop(name)
        self.peers.caches.pop(name, None)
        if killed:
            self.hub.kill(name)
        await cache.stop()
        await self.clock.advance(6)

    def push(self, number: int) -> str:
        """Let main be at a new commit."""
        sha = self.server.push(MAIN, number)
        self.server.roots[sha] = sha_of(number + 1000)
        self.server.tree(self.server.roots[sha], FILES | {"n": str(number).encode()})
        return sha

    @property
    def owner(self) -> str:
        return self.hub.owners[ID]

    def others(self) -> list[str]:
        return [name for name in self.caches if name != self.owner]

    def at(self, name: str) -> str | None:
        state = self.caches[name].state(ID)
        return state.commits["main"].sha if state and "main" in state.commits else None


@pytest.fixture
async def company() -> AsyncIterator[Company]:
    company = Company()
    yield company
    for name in tuple(company.caches):
        await company.leave(name)


async def test_one_follows_and_all_know(company: Company) -> None:
    sha = company.push(1)
    await company.join("a", "b", "c")
    assert [company.at(name) for name in company.caches] == [sha] * 3
    fetching = [name for name, copy in company.copies.items() if copy.fetches]
    assert fetching == [company.owner] or len(fetching) == 2


async def test_others_have_the_owner_render_and_each_render_is_one(company: Company) -> None:
    sha = company.push(1)
    await company.join("a", "b", "c")
    request = RenderRequest(ID, sha, "web")
    digests = {(await cache.render(request)).digest for cache in company.caches.values()}
    trees = [await cache.trees(ID, sha, ["web"]) for cache in company.caches.values()]
    assert len(digests) == 1 and len(company.workers.jobs) == 1
    assert trees[0] == trees[1] == trees[2] and trees[0]["web"]
    assert set(company.peers.asked) <= {company.owner}


async def test_a_hint_at_any_replica_reaches_the_owner(company: Company) -> None:
    company.push(1)
    await company.join("a", "b")
    sha = company.push(2)
    other = company.others()[0]
    await company.caches[other].request_poll(ID, {MAIN: sha})
    await company.clock.advance(0)
    assert company.at(other) == sha


async def test_a_newcomer_fetches_before_it_takes_over(company: Company) -> None:
    """Make before break: while it cannot fetch, the old one goes on."""
    best = assign_to_replicas({ID}, {"a", "b"})[ID]
    first = "b" if best == "a" else "a"
    sha = company.push(1)
    await company.join(first)
    company.server.served.clear()
    await company.join(best)
    assert company.owner == first
    company.server.served.add(sha)
    await company.clock.advance(20)
    assert company.owner == best
    assert sha in company.copies[best].local.values()


async def test_a_former_owner_answers_from_its_copy_until_that_is_deleted(
    company: Company,
) -> None:
    """The new owner is busy enough at that time."""
    best = assign_to_replicas({ID}, {"a", "b"})[ID]
    first = "b" if best == "a" else "a"
    sha = company.push(1)
    await company.join(first)
    await company.join(best)
    await company.clock.advance(20)
    assert company.owner == best
    company.peers.asked.clear()
    former = company.caches[first]
    answer = await former.trees(ID, sha, ["web"])
    assert company.peers.asked == []
    newer = company.push(2)
    await company.clock.advance(15)
    await former.trees(ID, newer, ["web"])
    assert company.peers.asked == [best]
    await former.drop_copies()
    assert await former.trees(ID, sha, ["web"]) == answer
    assert company.peers.asked == [best, best]


async def test_a_repository_that_is_named_later_shows_its_state_at_once(company: Company) -> None:
    """A replica knows the states of all owners before its control plane names repositories."""
    sha = company.push(1)
    await company.join("a", "b")
    other = company.caches[company.others()[0]]
    other.forget(ID)
    company.hub.tell(StatePublished(company.hub.states[ID]))
    assert other.state(ID) is None and other.states() == []
    states: list[RepositoryState] = []
    other.on_state(states.append)
    other.follow(SPEC)
    assert [state.commits["main"].sha for state in states] == [sha]
    company.hub.tell(StatePublished(company.hub.states[ID]))
    other.follow(SPEC)
    assert len(states) == 1


async def test_a_killed_owner_is_followed_by_another(company: Company) -> None:
    company.push(1)
    await company.join("a", "b", "c")
    dead = company.owner
    await company.leave(dead, killed=True)
    sha = company.push(2)
    await company.clock.advance(15)
    assert company.owner != dead
    assert {company.at(name) for name in company.caches} == {sha}


async def test_a_new_owner_that_cannot_reach_git_keeps_what_is_known(company: Company) -> None:
    sha = company.push(1)
    await company.join("a", "b")
    for copy in company.copies.values():
        copy.error = Unavailable("git.test does not answer")
    await company.leave(company.owner, killed=True)
    (left,) = company.caches
    state = company.caches[left].state(ID)
    assert state is not None and state.error
    assert company.at(left) == sha
    assert not state.missing
    assert state.fetched_at is not None


async def test_without_the_coordinating_server_states_wait_and_then_go_out(
    company: Company,
) -> None:
    old = company.push(1)
    await company.join("a", "b")
    company.hub.away = True
    sha = company.push(2)
    await company.caches[company.owner].request_poll(ID, {MAIN: sha})
    await company.clock.advance(1)
    assert company.at(company.others()[0]) == old
    company.hub.away = False
    await company.clock.advance(1)
    assert company.at(company.others()[0]) == sha


async def test_a_replica_without_the_lease_publishes_nothing(company: Company) -> None:
    company.push(1)
    await company.join("a", "b")
    stale, other = company.owner, company.others()[0]
    company.hub.owners[ID] = other
    sha = company.push(2)
    seen = len(company.states[other])
    await company.caches[stale].request_poll(ID, {MAIN: sha})
    await company.clock.advance(30)
    assert all(state.error is None for state in company.states[other][seen:])
    assert company.at(other) == sha


async def test_a_replica_that_has_lost_the_lease_asks_the_server_no_more(
    company: Company,
) -> None:
    """It was paused for longer than its lease, and nothing has changed at the server since."""
    best = assign_to_replicas({ID}, {"a", "b"})[ID]
    stale = "b" if best == "a" else "a"
    sha = company.push(1)
    await company.join(stale)
    company.server.served.clear()
    await company.join(best)
    company.server.served.add(sha)
    company.hub.owners[ID] = best
    await company.clock.advance(6)
    polls = len(company.copies[stale].polls)
    await company.clock.advance(60)
    assert len(company.copies[stale].polls) == polls
    assert len(company.copies[best].polls) >= 5


async def test_a_request_without_an_owner_is_unavailable(company: Company) -> None:
    sha = company.push(1)
    await company.join("a", "b")
    other = company.others()[0]
    del company.peers.caches[company.owner]
    asking = asyncio.ensure_future(company.caches[other].trees(ID, sha, ["web"]))
    await company.clock.advance(10)
    with pytest.raises(Unavailable, match="no replica can currently answer"):
        await asking


@pytest.mark.parametrize(
    "ask",
    [
        lambda cache, sha: cache.trees(ID, sha, ["web"], local_only=True),
        lambda cache, sha: cache.folders(ID, sha, "", 1, local_only=True),
        lambda cache, sha: cache.files(ID, sha, "web", [".yaml"], local_only=True),
        lambda cache, sha: cache.resolve(ID, "main", local_only=True),
        lambda cache, sha: cache.render(RenderRequest(ID, sha, "web"), local_only=True),
    ],
)
async def test_a_request_of_another_replica_goes_no_further(
    company: Company, ask: Callable[[GitCache, str], Awaitable[object]]
) -> None:
    """Two replicas that each take the other for the owner must not ask each other in turn."""
    sha = company.push(1)
    await company.join("a", "b")
    other = company.others()[0]
    company.peers.asked.clear()
    with pytest.raises(NotOwner):
        await ask(company.caches[other], sha)
    assert company.peers.asked == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda cache, sha: cache.folders(ID, sha, "", 1),
        lambda cache, sha: cache.files(ID, sha, "web", [".yaml"]),
        lambda cache, sha: cache.resolve(ID, "main"),
    ],
)
async def test_any_replica_gives_the_answer_of_the_owner(
    company: Company, ask: Callable[[GitCache, str], Awaitable[object]]
) -> None:
    sha = company.push(1)
    await company.join("a", "b")
    owner, other = company.owner, company.others()[0]
    company.peers.asked.clear()
    answer = await ask(company.caches[owner], sha)
    assert answer and await ask(company.caches[other], sha) == answer
    assert company.peers.asked == [owner]


async def test_a_source_that_another_replica_owns_is_fetched_for_the_render(
    company: Company,
) -> None:
    """Two repositories, two owners: the render of both is made at one of them."""
    sha = company.push(1)
    await company.join("a", "b")
    second = replace(SPEC, id=RepositoryId("values"), url="https://git.test/values")
    for cache in company.caches.values():
        cache.follow(second)
    company.hub.owners[second.id] = company.others()[0]
    await company.clock.advance(6)
    assert company.hub.owners[second.id] != company.owner
    source = SourceFolder(second.id, sha, "web", "values")
    request = RenderRequest(ID, sha, "web", sources=(source,))
    assert (await company.caches[company.owner].render(request)).count


async def test_a_new_owner_whose_clock_is_behind_is_believed(company: Company) -> None:
    """Control planes take the newest state: its time must not be before the last published one."""
    company.push(1)
    await company.join("a", "b")
    last = company.caches[company.owner].state(ID)
    assert last is not None
    tomorrow = replace(last, polled_at=last.polled_at + timedelta(days=1))
    company.hub.states[ID] = tomorrow
    company.hub.tell(StatePublished(tomorrow))
    await company.leave(company.owner, killed=True)
    sha = company.push(2)
    await company.clock.advance(30)
    newer = [
        state for state in company.states[company.owner] if state.polled_at > tomorrow.polled_at
    ]
    assert newer[-1].commits["main"].sha == sha
    assert [one.polled_at for one in newer] == sorted({one.polled_at for one in newer})
    shown = company.caches[company.owner].state(ID)
    assert shown is not None and shown.polled_at == newer[-1].polled_at


class Still(HubPeers):
    """An owner that takes questions and answers none."""

    async def call(
        self, member: ReplicaMember, operation: Operation[Query, Result], query: Query
    ) -> Result:
        self.asked.append(member.name)
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_owner_that_stands_still_is_waited_for_only_while_it_is_the_owner(
    company: Company,
) -> None:
    """Its questions are not asked again meanwhile: that would keep a busy one busy."""
    sha = company.push(1)
    await company.join("a", "b")
    owner, other = company.owner, company.others()[0]
    peers = company.caches[other]._peers = Still()
    asking = asyncio.ensure_future(company.caches[other].trees(ID, sha, ["web"]))
    await asyncio.sleep(1.1)
    assert not asking.done() and peers.asked == [owner]
    await company.leave(owner, killed=True)
    await until_done(company, asking)
    assert (await asking)["web"] and peers.asked == [owner]


async def until_done(company: Company, asking: asyncio.Future) -> None:
    """Let the time go on until something is answered."""
    async with asyncio.timeout(60):
        while not asking.done():
            await company.clock.advance(1)
            await asyncio.sleep(0.02)
