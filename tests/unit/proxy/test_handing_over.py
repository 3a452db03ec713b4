"""Requests that are handed over to the native hub, with a hub in memory."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from core.mux.codec import FLAG_HEAD, FLAG_NOBODY, FLAG_UPGRADE, Open
from core.native import NativeHub
from proxy.domain.attributes import RequestAttributes, read_attributes
from proxy.fast_path.splices import NEAR_SECONDS, ConnectionPosition, SplicedRequests
from proxy.gateway.forward.proxied_request import ProxiedRequest
from proxy.tunnel.data_links import DataLinks

LIST = read_attributes("GET", "/api/v1/pods")
WATCH = read_attributes("GET", "/api/v1/pods?watch=1")
EXEC = read_attributes("GET", "/api/v1/namespaces/a/pods/b/exec")
DELETE = read_attributes("DELETE", "/api/v1/namespaces/a/pods/b")
NEAR, FAR, UNKNOWN = NEAR_SECONDS / 2, NEAR_SECONDS, 0.0
"""Round trips of a line."""


@dataclass
class FakeHub:
    """A hub that takes every request."""

    round_trip: float

    def link_round_trip(self, link: int) -> float:
        return self.round_trip

    def splice(self, *order: object) -> int:
        return 1


@dataclass
class FakeLinks:
    """Data links; each agent has the same one."""

    number: int = 7

    def find_or_offer(self, route: object) -> int:
        return self.number


@dataclass
class Authorized:
    agent: object = None


@dataclass
class Record:
    attributes: RequestAttributes
    recorded: bool = False


@dataclass
class Request:
    """The part of a `ProxiedRequest` that counts."""

    record: Record
    accepts_gzip: bool = False
    keeps_alive: bool = True
    authorized: Authorized = field(default_factory=Authorized)
    splice: object = None


def hands_over(
    attributes: RequestAttributes,
    flags: int = FLAG_NOBODY,
    round_trip: float = NEAR,
    *,
    gzip: bool = False,
    recorded: bool = False,
    link: int = 7,
) -> bool:
    """Hands one request over; returns what its gateway is told."""
    hub, links = cast(NativeHub, FakeHub(round_trip)), cast(DataLinks, FakeLinks(link))
    request = Request(Record(attributes, recorded), gzip)
    request_id = bytes(range(16))
    head = b"GET /api HTTP/1.1\r\nAudit-ID: " + request_id.hex().encode() + b"\r\n\r\n"
    message = Open(head, b"Impersonate-User: ann\r\n", request_id, flags)
    position = ConnectionPosition(1, 2, 3)
    moved = SplicedRequests(hub, links).hand_over(position, cast(ProxiedRequest, request), message)
    assert moved == (request.splice is not None)
    return moved


@pytest.mark.parametrize("attributes", [LIST, WATCH], ids=["list", "watch"])
@pytest.mark.parametrize("flags", [FLAG_NOBODY, FLAG_NOBODY | FLAG_HEAD], ids=["GET", "HEAD"])
def test_reads_without_content_are_handed_over(attributes: RequestAttributes, flags: int) -> None:
    assert hands_over(attributes, flags)
    assert not hands_over(attributes, flags & ~FLAG_NOBODY)


def test_writes_stay_in_python() -> None:
    """The API server may have got one when its data link ends."""
    assert not hands_over(DELETE)


@pytest.mark.parametrize(
    ("round_trip", "gzip", "expected"),
    [(NEAR, False, True), (FAR, False, False), (UNKNOWN, False, False), (FAR, True, True)],
    ids=["near", "far", "unknown", "far with gzip"],
)
def test_a_list_that_the_control_link_may_compress_stays_on_it(
    round_trip: float, gzip: bool, expected: bool
) -> None:
    """The API server compresses for clients that accept gzip. Events are small."""
    assert hands_over(LIST, round_trip=round_trip, gzip=gzip) == expected
    assert hands_over(WATCH, round_trip=round_trip, gzip=gzip)
    assert hands_over(EXEC, FLAG_UPGRADE, round_trip, gzip=gzip)


def test_recorded_sessions_stay_in_python() -> None:
    assert hands_over(EXEC, FLAG_UPGRADE)
    assert not hands_over(EXEC, FLAG_UPGRADE, recorded=True)


def test_an_agent_needs_a_data_link() -> None:
    assert not hands_over(LIST, link=0)
