"""Servers of a tier that have not answered yet."""

import asyncio
import ssl
from collections.abc import Callable

import pytest

from core.errors import NotFound, TowlineError, Unavailable
from core.spec.bundle import digest_of
from core.spec.source import RepositoryState
from gitcache.peers.client import PeerClient
from gitcache.peers.remote import RemoteGitCache
from gitcache.ports import NotOwner, PeerTimeout, PeerUnavailable, ReplicaMember
from tests.fakes.clock import FakeClock

DATA = b"bundle"
SERVERS = ("a:1", "b:1")


class Answers(PeerClient):
    """Fails with each given error after so many seconds; then returns a bundle."""

    def __init__(
        self, clock: FakeClock, failures: list[type[TowlineError]], seconds: float = 5
    ) -> None:
        super().__init__(ssl.create_default_context(), hop=False)
        self._clock = clock
        self._failures = failures
        self._seconds = seconds

    async def bundle(self, member: ReplicaMember, digest: str) -> bytes:
        if self._failures:
            if self._seconds:
                await self._clock.advance(self._seconds)
            raise self._failures.pop()(member.address)
        return DATA


async def asked(*failures: type[TowlineError]) -> bytes:
    clock = FakeClock()
    return await RemoteGitCache(Answers(clock, list(failures)), SERVERS, clock).bundle(
        digest_of(DATA)
    )


async def test_timeouts_of_peers_are_retried() -> None:
    assert (
        await asked(PeerTimeout, PeerTimeout, PeerUnavailable, PeerTimeout, PeerUnavailable) == DATA
    )


async def test_servers_that_are_away_are_not_waited_for() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await asked(PeerUnavailable, PeerUnavailable)


async def test_the_one_that_can_render_it_again_is_found() -> None:
    """Only the server that was asked to render knows how; the bundle itself is asked elsewhere."""
    assert await asked(NotFound) == DATA


async def test_a_bundle_that_all_do_not_have_is_not_found() -> None:
    with pytest.raises(NotFound):
        await asked(NotFound, NotFound)


async def test_a_peer_that_is_not_the_owner_is_asked_again() -> None:
    """A repository is changing hands, and this is the only server that is known."""
    assert await asked(NotOwner, PeerUnavailable, NotOwner) == DATA


async def test_repeated_not_owner_answers_are_retried_with_a_pause() -> None:
    """A restarted replica does not know any repository yet."""
    clock = FakeClock()
    failures: list[type[TowlineError]] = [NotOwner] * 1000
    cache = RemoteGitCache(Answers(clock, failures, seconds=0), SERVERS, clock)
    asking = asyncio.ensure_future(cache.bundle(digest_of(DATA)))
    await clock.advance(59)
    assert not asking.done()
    await clock.advance(2)
    with pytest.raises(Unavailable, match="did not answer in time"):
        await asking


class Silent(Answers):
    """One server tells states, of the other nothing is heard; tells who was asked."""

    def __init__(self, clock: FakeClock, speaks: str) -> None:
        super().__init__(clock, [])
        self.speaks = speaks
        self.asked: list[str] = []

    async def stream_states(
        self, member: ReplicaMember, on_state: Callable[[RepositoryState], None]
    ) -> None:
        if member.address != self.speaks:
            raise PeerUnavailable("silent")
        await asyncio.Event().wait()

    async def bundle(self, member: ReplicaMember, digest: str) -> bytes:
        self.asked.append(member.address)
        return DATA


@pytest.mark.parametrize("speaks", SERVERS)
async def test_a_server_that_is_not_heard_is_asked_last(speaks: str) -> None:
    """One that was stopped takes connections still, and each question would wait for it."""
    clock = FakeClock()
    client = Silent(clock, speaks)
    cache = RemoteGitCache(client, SERVERS, clock)
    await cache.start()
    await clock.advance(0.01)
    await cache.bundle(digest_of(DATA))
    await cache.stop()
    assert client.asked == [speaks]


async def test_patience_ends() -> None:
    """A caller waits: after a minute it gets an error that nothing came in time."""
    for failure in (PeerTimeout, NotOwner):
        with pytest.raises(Unavailable, match="did not answer in time"):
            await asked(*[failure] * 20)


async def test_an_absent_server_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    """It may be away for days, and is tried again every few seconds."""
    clock = FakeClock()
    cache = RemoteGitCache(Silent(clock, "a:1"), SERVERS, clock)
    await cache.start()
    await clock.advance(600)
    await cache.stop()
    output = capsys.readouterr().out
    assert (
        output.count("git cache server disconnected")
        == 1
        >= output.count("sending followed repositories failed")
    )
