"""Decisions that the native hub repeats, with a hub in memory."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from core.native import Ends, NativeHub
from proxy.domain.limits import HeadLimits, StreamLimits
from proxy.fast_path.repeats import RepeatedReads
from proxy.gateway.connection import UserConnection
from proxy.gateway.parse.head import parse_head
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.route import find_route
from proxy.tunnel.data_links import DataLinks
from tests.fakes.kube_proxy import ANN
from tests.unit.proxy.test_authorizer import ANN_TOKEN, PODS, AuthorizerStand

HEAD = (
    b"GET /k8s/clusters/dev/api/v1/pods HTTP/1.1\r\nHost: hub\r\n"
    b"Authorization: Bearer ann-token\r\n\r\n"
)


@dataclass
class FakeHub:
    """Remembers what it was taught, as (head, lifetime)."""

    taught: list[tuple[bytes, float]] = field(default_factory=list)
    ended: list[Ends] = field(default_factory=list)

    def teach(self, link: int, head: bytes, *parts: Any) -> int:
        self.taught.append((head, parts[3]))
        return len(self.taught)

    def take_ends(self, most: int) -> list[Ends]:
        ended, self.ended = self.ended, []
        return ended

    def forget(self) -> None: ...

    def load(self, user: str) -> int:
        return 0


class AnyLink:
    """Data links of which each agent has one."""

    def find_or_offer(self, agent: object) -> int:
        return 7


@dataclass
class LastRequest:
    """A connection whose last request was this."""

    last_request: tuple[bytes, ParsedRequest]


class Stand:
    """A user who asked once, and whose next requests the hub serves."""

    def __init__(self) -> None:
        self.authorizer_stand, self.hub = AuthorizerStand(), FakeHub()
        self.repeats = RepeatedReads(
            cast(NativeHub, self.hub),
            cast(DataLinks, AnyLink()),
            self.authorizer_stand.recorder,
            self.authorizer_stand.authorization,
            self.authorizer_stand.clock,
            StreamLimits(),
        )

    async def begin(self) -> None:
        await self.authorizer_stand.authorization.identify(ANN_TOKEN, "here")
        await self.authorizer_stand.authorization.admit(ANN, "dev", PODS, [])
        asked = LastRequest((HEAD, request()))
        self.repeats.learn(cast(UserConnection, asked))

    def use(self, verdict: int) -> None:
        """A request that the hub has served."""
        self.hub.ended.append((verdict, "198.51.100.7", 4000, 200, 0, 0, [("a" * 32, 0.1, 2)]))
        self.repeats.record_ends()

    async def after(self, seconds: float) -> None:
        self.authorizer_stand.clock.advance(seconds)
        await self.repeats.renew()


def request() -> ParsedRequest:
    head = parse_head(HEAD, HeadLimits())
    route = find_route(head.target)
    assert route is not None
    return ParsedRequest.of(head, route)


@pytest.fixture
async def stand() -> Stand:
    stand = Stand()
    await stand.begin()
    return stand


async def test_a_decision_in_use_is_made_again_before_it_ends(stand: Stand) -> None:
    """By asking for the user and the permission again."""
    stand.use(1)
    await stand.after(1.5)
    assert len(stand.hub.taught) == 1
    await stand.after(1.0)
    assert [head for head, _ in stand.hub.taught] == [HEAD, HEAD]
    assert stand.hub.taught[1][1] == pytest.approx(5)
    assert stand.authorizer_stand.installation.asked == ["ann-token"] * 2
    assert stand.authorizer_stand.installation.checked == [PODS] * 2


async def test_a_decision_that_nobody_uses_ends(stand: Stand) -> None:
    await stand.after(4)
    stand.use(1)
    await stand.after(2)
    assert len(stand.hub.taught) == 1


async def test_a_renewed_decision_has_to_be_used_again(stand: Stand) -> None:
    stand.use(1)
    await stand.after(3)
    await stand.after(3)
    assert len(stand.hub.taught) == 2
    stand.use(2)
    await stand.after(1)
    assert len(stand.hub.taught) == 3


@pytest.mark.parametrize("lost", ["permission", "token"])
async def test_a_lost_right_is_not_renewed(stand: Stand, lost: str) -> None:
    stand.use(1)
    if lost == "permission":
        stand.authorizer_stand.installation.forbidden.add("ann")
    else:
        stand.authorizer_stand.installation.users.clear()
    await stand.after(3)
    assert len(stand.hub.taught) == 1
