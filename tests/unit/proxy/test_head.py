"""Request heads: what is routed is what is forwarded, and a second parser reads it alike."""

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.head import parse_head, rebuild, validate_head
from tests.fuzz.targets import LIMITS, accepted, second_opinion

TOKENS = st.sampled_from(
    [
        b"GET",
        b"POST",
        b" ",
        b"/api",
        b"/",
        b"?x=1",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"\r\n",
        b"\n",
        b"\r",
        b"\t",
        b"Host",
        b":",
        b"a",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Impersonate-User: root\r\n",
        b"\x00",
        b"\xe9",
        b"#",
        b"%2e",
        b"Host: x\r\n",
        b"GET /api HTTP/1.1\r\n",
    ]
)
FIELD_NAMES = st.from_regex(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", fullmatch=True)
FIELD_VALUES = st.from_regex(
    rb"[\x21-\x7e]([\x20-\x7e\x80-\xff]{0,20}[\x21-\x7e])?", fullmatch=True
)


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=14))
def test_accepted_input_is_read_alike_by_a_second_parser(tokens: list[bytes]) -> None:
    """Being stricter is fine; reading another method, target or field is not."""
    data = b"".join(tokens) + b"\r\n\r\n"
    data = data[: data.find(b"\r\n\r\n") + 4]
    head = accepted(data)
    if head is None:
        return
    other = second_opinion(data)
    assert other is not None
    assert (head.method, head.target) == (other.method, other.target)
    fields = [(bytes(name).lower(), bytes(value)) for name, value in other.headers]
    assert [(lower, value) for lower, _, value in head.fields] == fields


@settings(deadline=None)
@given(st.lists(st.tuples(FIELD_NAMES, FIELD_VALUES), max_size=6))
def test_the_forwarded_head_equals_the_parsed_one(fields: list[tuple[bytes, bytes]]) -> None:
    """A rebuilt head, parsed again, has the fields that may pass and no others."""
    data = b"GET /k8s HTTP/1.1\r\nHost: a\r\n"
    data += b"".join(name + b": " + value + b"\r\n" for name, value in fields) + b"\r\n"
    head = accepted(data)
    if head is None:
        return
    sent = second_opinion(
        rebuild(head, b"/api/v1/pods", "id").replace(b"\r\n", b"\r\nHost: a\r\n", 1)
    )
    assert sent is not None
    assert sent.target == b"/api/v1/pods"
    names = {bytes(name) for name, _ in sent.headers}
    assert not names & {b"authorization", b"cookie", b"via", b"te", b"forwarded"}
    assert not any(name.startswith((b"x-remote-", b"proxy-", b"x-forwarded-")) for name in names)
    assert b"audit-id" in names


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_with_a_status(garbage: bytes) -> None:
    """Nothing but BadHead, whatever comes."""
    try:
        validate_head(parse_head(garbage + b"\r\n\r\n", LIMITS))
    except BadHead as refused:
        assert 400 <= refused.status < 500
