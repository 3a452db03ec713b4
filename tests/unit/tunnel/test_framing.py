"""Bytes after a head on a connection with the agent's permissions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncagent.tunnel.framing import RequestFraming
from syncagent.tunnel.guard import ForwardingRefused, Guard, ImpersonationPolicy

SMUGGLED = b"DELETE /api/v1/namespaces/kube-system HTTP/1.1\r\nHost: a\r\n\r\n"


def framing(*fields: bytes, version: bytes = b"1.1") -> RequestFraming:
    lines = b"".join(field + b"\r\n" for field in fields)
    return RequestFraming(b"POST /api HTTP/%s\r\n%s\r\n" % (version, lines))


@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Length: 5", b"Content-Length: 5"),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 5, 5",),
        (b"Content-Length: +5",),
        (b"Content-Length:",),
        (b"content-length: 0x5",),
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: chunked", b"transfer-encoding: chunked"),
        (b"Transfer-Encoding: identity",),
    ],
)
def test_a_body_of_doubtful_length_is_refused(fields: tuple[bytes, ...]) -> None:
    with pytest.raises(ForwardingRefused):
        framing(*fields)


def test_an_old_protocol_has_no_chunks() -> None:
    """An API server would read them as the next request."""
    with pytest.raises(ForwardingRefused):
        framing(b"Transfer-Encoding: chunked", version=b"1.0")


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ((), b""),
        ((b"Content-Length: 0",), b""),
        ((b"Content-Length: 5",), b"hello"),
        ((b"transfer-encoding:  Chunked ",), b"5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n"),
    ],
)
@given(data=st.data())
def test_nothing_follows_a_body(
    fields: tuple[bytes, ...], body: bytes, data: st.DataObject
) -> None:
    """However it is cut: the body passes whole, and not one byte behind it."""
    sent = body + SMUGGLED[: data.draw(st.integers(1, len(SMUGGLED)))]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent)), max_size=4)) | {len(body)} - {0})
    checked, at = framing(*fields), 0
    for cut in cuts:
        if cut > len(body):
            break
        assert checked.done is (at == len(body))
        checked.check(sent[at:cut])
        at = cut
    assert checked.done
    with pytest.raises(ForwardingRefused):
        checked.check(sent[at:])


@pytest.mark.parametrize(
    "target", [b"/..", b"/api/../../v3", b"/%2E./x", b"/a/%2e%2E?x", b"/a%2f..%2fb", b"/a\\..\\b"]
)
def test_no_request_leaves_the_prefix(target: bytes) -> None:
    """Above it is another server, which knows the agent and not the user."""
    head = b"GET %s HTTP/1.1\r\n\r\n" % target
    Guard(ImpersonationPolicy()).check(b"Impersonate-User: ann\r\n", head)
    below = Guard(ImpersonationPolicy(), below_prefix=True)
    with pytest.raises(ForwardingRefused, match="dot segments"):
        below.check(b"Impersonate-User: ann\r\n", head)
    below.check(
        b"Impersonate-User: ann\r\n", b"GET /api/..a/.b?x=/../y HTTP/1.1\r\nA: /../\r\n\r\n"
    )
