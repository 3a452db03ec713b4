"""The git cache as its users see it, on ports in memory."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.errors import NotFound, Unavailable
from core.identity import RepositoryId
from core.spec.source import RenderRequest, RepositorySpec, RepositoryState
from gitcache.sync.cache import FollowedSources, GitCache, ReplicaNetwork, Upkeep
from gitcache.sync.follower import FollowerPorts, PollIntervals
from gitcache.sync.render_service import RenderPorts, RenderService
from tests.fakes.clock import FakeClock, settle
from tests.fakes.gitcache import (
    FakeCharts,
    FakeContent,
    FakeCoordinator,
    FakeGit,
    FakeImages,
    FakeMemo,
    FakeWorkers,
    fake_signer,
    sha_of,
)

ID = RepositoryId("r")
SPEC = RepositorySpec(ID, "https://git.test/r", frozenset({"main"}))
MAIN = "refs/heads/main"


class Room:
    """A cache with everything around it."""

    def __init__(self) -> None:
        self.git, self.content, self.clock = FakeGit(), FakeContent(), FakeClock()
        self.workers = FakeWorkers()
        self.steps: list[str] = []
        self.coordinator = FakeCoordinator()
        self.cache = GitCache(
            FollowedSources(
                FollowerPorts(self.git, self.git, self.git, self.coordinator),
                PollIntervals(10, 100),
            ),
            RenderService(
                RenderPorts(
                    self.git, self.content, FakeMemo(), self.workers, FakeCharts(), FakeImages()
                ),
                self.clock,
            ),
            self.content,
            self.clock,
            ReplicaNetwork(self.coordinator),
            fake_signer(self.clock),
            upkeep=Upkeep(on_start=(self.note("open"),), on_stop=(self.note("close"),)),
        )

    def note(self, step: str):
        async def note() -> None:
            self.steps.append(step)

        return note

    def push(self, number: int, files: dict[str, bytes]) -> str:
        """Let main be at a new commit with these files."""
        sha = self.git.push(MAIN, number)
        self.git.roots[sha] = sha_of(number + 1000)
        self.git.tree(self.git.roots[sha], files)
        return sha


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    await room.cache.start()
    yield room
    await room.cache.stop()
    assert room.steps == ["open", "close"]


async def test_following_twice_asks_once(room: Room) -> None:
    room.push(1, {"web/a.yaml": b"a"})
    for _ in range(3):
        room.cache.follow(SPEC)
        await room.clock.advance(0)
    assert len(room.git.polls) == 1


async def test_another_url_starts_anew(room: Room) -> None:
    first = room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    room.cache.follow(replace(SPEC, url="https://git.test/other"))
    await settle(100)
    state = room.cache.state(ID)
    assert state is not None and state.commits["main"].sha == first
    assert len(room.git.polls) == 2


async def test_a_callback_that_fails_harms_no_other(room: Room) -> None:
    states: list[RepositoryState] = []

    def fail(state: RepositoryState) -> None:
        raise RuntimeError("not mine")

    room.cache.on_state(fail)
    room.cache.on_state(states.append)
    room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    assert len(states) == 1


async def test_keys_renders_and_bundles(room: Room) -> None:
    sha = room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    ids = await room.cache.trees(ID, sha, ["web", "/web/", "nope", "../web"])
    assert ids["web"] and ids["web"] == ids["/web/"]
    assert ids["nope"] is None and ids["../web"] is None
    rendered = await room.cache.render(RenderRequest(ID, sha, "web"))
    assert len(await room.cache.bundle(rendered.digest)) == rendered.size


async def test_a_bundle_that_was_lost_is_rendered_again(room: Room) -> None:
    sha = room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    rendered = await room.cache.render(RenderRequest(ID, sha, "web"))
    kept = room.content.kept.pop(rendered.digest)
    assert await room.cache.bundle(rendered.digest) == kept


async def test_a_stored_bundle_is_not_rendered_again(room: Room) -> None:
    sha = room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    rendered = await room.cache.render(RenderRequest(ID, sha, "web"))
    room.content.broken = True
    assert await room.cache.bundle(rendered.digest)
    assert len(room.workers.jobs) == 1


async def test_unknown_bundles_and_repositories_are_errors(room: Room) -> None:
    with pytest.raises(NotFound):
        await room.cache.bundle("sha256:" + "0" * 64)
    with pytest.raises(Unavailable, match="not followed"):
        await room.cache.trees(ID, sha_of(1), ["web"])
    assert room.cache.state(ID) is None
    await room.cache.request_poll(ID, {})
    room.cache.forget(ID)


async def test_repositories_followed_before_the_start_are_polled() -> None:
    room = Room()
    sha = room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.cache.start()
    await room.clock.advance(0)
    state = room.cache.state(ID)
    assert state is not None and state.commits["main"].sha == sha
    await room.cache.stop()


async def test_a_forgotten_repository_is_polled_no_more(room: Room) -> None:
    room.push(1, {"web/a.yaml": b"a"})
    room.cache.follow(SPEC)
    await room.clock.advance(0)
    room.cache.forget(ID)
    await room.clock.advance(500)
    assert len(room.git.polls) == 1
