"""Parsing of the heads of one connection."""

import pytest

from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.parser import ApplicationHead, RequestParser
from proxy.gateway.parse.route import ClaimedRoute, claimed_route

TOKEN = b"Authorization: Bearer secret\r\n"
HEAD = b"GET /k8s/clusters/dev/api/v1/pods HTTP/1.1\r\nHost: a\r\n"
PODS = HEAD + TOKEN + b"\r\n"
OTHER = b"GET /gql HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def parser() -> RequestParser:
    return RequestParser(HeadLimits(size=256))


def test_a_head_ends_with_an_empty_line(parser: RequestParser) -> None:
    """Every prefix is incomplete; the bytes after the head are returned."""
    assert all(parser.parse(PODS[:size]) is None for size in range(len(PODS)))
    found = parser.parse(PODS + b"next")
    assert found is not None
    request, rest = found
    assert isinstance(request, ParsedRequest)
    assert (request.route.handle, request.method, rest) == ("dev", "GET", b"next")


def test_a_repeated_head_is_parsed_once(parser: RequestParser) -> None:
    """Alone or with following bytes; another head replaces the cached one."""
    first, second = parser.parse(PODS), parser.parse(PODS + PODS)
    assert first is not None and second is not None
    assert first[0] is second[0]
    assert second[1] == PODS
    other, again = parser.parse(OTHER), parser.parse(PODS)
    assert other is not None and again is not None
    assert isinstance(other[0], ApplicationHead)
    assert other[0].raw == OTHER
    assert again[0] is not first[0]


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (PODS, True),
        (HEAD + b"\r\n", False),
        (HEAD + b"Authorization: Basic x\r\n\r\n", False),
        (HEAD + TOKEN + b"Impersonate-User: bob\r\n\r\n", False),
        (HEAD + TOKEN + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", False),
        (PODS.replace(b"/pods", b"/../pods"), False),
    ],
)
def test_only_plain_requests_use_a_cached_authorization(
    parser: RequestParser, head: bytes, plain: bool
) -> None:
    """No upgrade, no impersonation, one valid credential, an unambiguous path."""
    found = parser.parse(head)
    assert found is not None
    assert isinstance(found[0], ParsedRequest)
    assert found[0].plain is plain


@pytest.mark.parametrize(
    ("data", "status", "start"),
    [
        (HEAD + b"X: " + b"a" * 256, 431, HEAD + b"X: " + b"a" * 256),
        (HEAD + b"Host: b\r\n\r\nrest", 400, HEAD + b"Host: b\r\n\r\n"),
        (PODS.replace(b"/dev/", b"/-/"), 404, PODS.replace(b"/dev/", b"/-/")),
    ],
)
def test_a_refusal_has_the_bytes_of_its_head(
    parser: RequestParser, data: bytes, status: int, start: bytes
) -> None:
    """For the audit log, without the bytes after the head."""
    with pytest.raises(BadHead) as caught:
        parser.parse(data)
    assert (caught.value.status, caught.value.start) == (status, start)


@pytest.mark.parametrize(
    ("start", "claimed"),
    [
        (PODS, ClaimedRoute("GET", "dev")),
        (b"GET /k8s/clusters/-/x HTTP", ClaimedRoute("GET", "")),
        (b"G" * 20 + b" /k8s/clusters/dev", ClaimedRoute("G" * 16, "dev")),
        (OTHER, None),
        (b"", None),
    ],
)
def test_a_refused_head_is_audited_if_it_is_for_a_cluster(
    start: bytes, claimed: ClaimedRoute | None
) -> None:
    """With its method, cut to 16 characters, and its handle."""
    assert claimed_route(start) == claimed
