"""The proxy's own answers, and the identity it sends."""

from datetime import timedelta

import orjson
import pytest

from core.errors import Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated, Unavailable
from proxy.domain.access import Impersonation, identity_block
from proxy.gateway.error_response import ErrorResponse, age, encode, response_for


@pytest.mark.parametrize(
    ("error", "status", "reason", "field"),
    [
        (Unauthenticated("who?"), 401, "Unauthorized", b"WWW-Authenticate: Bearer\r\n"),
        (Forbidden("no"), 403, "Forbidden", b""),
        (NotFound("none"), 404, "NotFound", b""),
        (LimitExceeded("later"), 429, "TooManyRequests", b"Retry-After: 1\r\n"),
        (Unavailable("away"), 503, "ServiceUnavailable", b""),
    ],
)
def test_errors_become_statuses(
    error: Unauthenticated, status: int, reason: str, field: bytes
) -> None:
    """A Status object, its sentence again as a Warning, and only the fields that help."""
    answer = encode(response_for(error), close=False)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert field in head + b"\r\n"
    assert (b"Retry-After" in head) is (status == 429)
    assert b'Warning: 299 towline "' + error.message.encode() + b'"' in head
    assert b"Content-Length: %d\r\n" % len(body) in head
    status_object = orjson.loads(body)
    assert (status_object["kind"], status_object["code"], status_object["reason"]) == (
        "Status",
        status,
        reason,
    )
    assert status_object["message"] == error.message


def test_sentences_cannot_break_out_of_the_head() -> None:
    """Quotes, line ends and letters beyond ASCII stay inside the Warning."""
    head = encode(ErrorResponse(403, 'a "b"\r\nSet-Cookie: x\\ é'), close=True).partition(
        b"\r\n\r\n"
    )[0]
    lines = head.split(b"\r\n")
    assert lines[-1] == b"Connection: close"
    assert [line.partition(b":")[0] for line in lines[1:]] == [
        b"Content-Type",
        b"Content-Length",
        b"Warning",
        b"Connection",
    ]


def test_an_answer_to_head_has_no_body() -> None:
    """Content-Length is set all the same."""
    answer = encode(ErrorResponse(404, "none"), close=False, head_request=True)
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (59, "59s"), (192, "3m12s"), (18_120, "5h02m"), (187_200, "2d04h")],
)
def test_ages_use_at_most_two_units(seconds: int, text: str) -> None:
    """Two units at most."""
    assert age(timedelta(seconds=seconds)) == text


def test_identity_block_names_all_there_is() -> None:
    """User, groups, uid and extras, the extras' keys encoded."""
    block = identity_block(Impersonation("ann", ("a", "b"), "7", (("Towline/x y", "v"),)))
    assert block == (
        b"Impersonate-User: ann\r\nImpersonate-Group: a\r\nImpersonate-Group: b\r\n"
        b"Impersonate-Uid: 7\r\nImpersonate-Extra-towline%2Fx%20y: v\r\n"
    )


@pytest.mark.parametrize("name", ["", "a\r\nImpersonate-Group: system:masters", "a\x00", " a"])
def test_names_that_are_no_header_values_are_refused(name: str) -> None:
    """A name can add no line."""
    with pytest.raises(Invalid):
        identity_block(Impersonation(name))


def test_too_many_groups_are_refused_with_their_number() -> None:
    """With their number."""
    with pytest.raises(Forbidden, match="2000 groups"):
        identity_block(Impersonation("ann", tuple(f"group-{n}" for n in range(2000))))
