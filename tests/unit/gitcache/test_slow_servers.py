"""Servers of a tier that have not answered yet."""

import ssl

import pytest

from fleet.bundle import digest_of
from fleet.errors import NotFound, TowlineError, Unavailable
from gitcache.peers.client import PeerClient
from gitcache.peers.remote import RemoteGitCache
from gitcache.ports import Member, NotOwner, PeerAway, PeerSlow
from tests.fakes.clock import FakeClock

DATA = b"bundle"
SERVERS = ("a:1", "b:1")


class Answers(PeerClient):
    """Fails as told, each time five seconds later; then it has a bundle."""

    def __init__(self, clock: FakeClock, failures: list[type[TowlineError]]) -> None:
        super().__init__(ssl.create_default_context(), hop=False)
        self._clock = clock
        self._failures = failures

    async def bundle(self, member: Member, digest: str) -> bytes:
        if self._failures:
            await self._clock.advance(5)
            raise self._failures.pop()(member.address)
        return DATA


async def asked(*failures: type[TowlineError]) -> bytes:
    clock = FakeClock()
    return await RemoteGitCache(Answers(clock, list(failures)), SERVERS, clock).bundle(
        digest_of(DATA)
    )


async def test_what_takes_longer_is_asked_for_again() -> None:
    assert await asked(PeerSlow, PeerSlow, PeerAway, PeerSlow, PeerAway) == DATA


async def test_servers_that_are_away_are_not_waited_for() -> None:
    with pytest.raises(Unavailable, match="is away"):
        await asked(PeerAway, PeerAway)


async def test_the_one_that_can_render_it_again_is_found() -> None:
    """Only the server that was asked to render knows how; the bundle itself is asked elsewhere."""
    assert await asked(NotFound) == DATA


async def test_a_bundle_that_all_do_not_have_is_not_found() -> None:
    with pytest.raises(NotFound):
        await asked(NotFound, NotFound)


async def test_who_is_not_sure_whose_it_is_is_asked_again() -> None:
    """A repository is changing hands, and this is the only server that is known."""
    assert await asked(NotOwner, PeerAway, NotOwner) == DATA


async def test_patience_ends() -> None:
    """Somebody waits: after a minute it is told that nothing came in time."""
    for failure in (PeerSlow, NotOwner):
        with pytest.raises(Unavailable, match="has not answered in time"):
            await asked(*[failure] * 20)
