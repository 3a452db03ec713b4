"""Requests that the agent refuses, even from the hub."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from proxy.domain.access import Impersonation, identity_block
from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.head import BadHead, parse_head, rebuild
from syncagent.tunnel.guard import ForwardingRefused, Guard, ImpersonationPolicy

HEAD = b"GET /api HTTP/1.1\r\nAccept: a\r\n\r\n"
ANN = b"Impersonate-User: ann\r\n"


@pytest.mark.parametrize(
    "identity",
    [
        b"",
        b"Impersonate-Group: a\r\n",
        b"Impersonate-User: ann",
        b"Impersonate-User: ann\r\nImpersonate-User: bob\r\n",
        b"Impersonate-User: \r\n",
        b"Impersonate-User: ann\r\nAuthorization: x\r\n",
        b"Impersonate-User: ann\r\n\r\n",
        b"Impersonate-User: ann\nImpersonate-Group: x\r\n",
        b"Impersonate-User: system:admin\r\n",
        b"Impersonate-User:  system:admin\r\n",
        b"Impersonate-User: ann\r\nImpersonate-Group: system:masters\r\n",
        b"Impersonate-User: ann\r\nImpersonate-Group: system:nodes\r\n",
    ],
)
def test_identities_that_are_refused(identity: bytes) -> None:
    """None, several, malformed, or of the system."""
    with pytest.raises(ForwardingRefused):
        Guard(ImpersonationPolicy()).check(identity, HEAD)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /api HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n",
        b"GET /api HTTP/1.1\r\nimpersonate-group: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\nA: b\r\n\r\nGET /api HTTP/1.1\r\n\r\n",
        b"GET /api HTTP/1.1\r\nA: b\n\r\n",
        b"GET /api HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET /api HTTP/1.1\r\nA: b\r\n",
        b"GET /a pi HTTP/1.1\r\n\r\n",
        b"CONNECT host:80 HTTP/1.1\r\n\r\n",
        b"",
    ],
)
def test_heads_that_are_refused(head: bytes) -> None:
    """An identity of their own, or more than one head."""
    with pytest.raises(ForwardingRefused):
        Guard(ImpersonationPolicy()).check(ANN, head)


def test_system_names_need_leave_of_the_cluster() -> None:
    """The allow-list is the agent's own, and the refusal names it."""
    guard = Guard(
        ImpersonationPolicy.parse(
            "user:system:a, user:system:node:*, group:system:b,group:system:*"
        )
    )
    guard.check(b"Impersonate-User: system:a\r\nImpersonate-Group: system:b\r\n", HEAD)
    guard.check(b"Impersonate-User: system:node:n1\r\nImpersonate-Group: system:nodes\r\n", HEAD)
    for user in (b"system:b", b"system:nodes", b" system:a", b"system:admin"):
        with pytest.raises(ForwardingRefused):
            guard.check(b"Impersonate-User: %s\r\n" % user, HEAD)
    with pytest.raises(
        ForwardingRefused, match="list group:system:masters in .* kubernetes.system_identities"
    ):
        guard.check(ANN + b"Impersonate-Group: system:masters\r\n", HEAD)


def test_masters_must_be_listed_in_full() -> None:
    """No pattern reaches the group that no RBAC limits."""
    block = ANN + b"Impersonate-Group: system:masters\r\n"
    Guard(ImpersonationPolicy.parse("group:system:masters")).check(block, HEAD)
    for text in ("user:system:masters", "group:system:*", "group:system:master*"):
        with pytest.raises(ForwardingRefused):
            Guard(ImpersonationPolicy.parse(text)).check(block, HEAD)


@pytest.mark.parametrize(
    "text", ["system:a", "group:*", "user:ann", "user:system:", "group:system:[a]", "uid:system:1"]
)
def test_the_list_takes_system_names_only(text: str) -> None:
    """A mistake ends the start: it would permit nothing, or too much."""
    with pytest.raises(Invalid):
        ImpersonationPolicy.parse(text)


def test_a_remembered_identity_does_not_excuse_a_head() -> None:
    """Each head is checked."""
    guard = Guard(ImpersonationPolicy())
    guard.check(ANN, HEAD)
    with pytest.raises(ForwardingRefused):
        guard.check(ANN, b"GET /api HTTP/1.1\r\nAuthorization: x\r\n\r\n")


NAMES = st.from_regex(r"[A-Za-z0-9@._-]{1,20}", fullmatch=True)
VALUES = st.from_regex(rb"[\x21-\x7e]([\x20-\x7e\x80-\xff]{0,20}[\x21-\x7e])?", fullmatch=True)


@given(NAMES, st.lists(NAMES, max_size=4), st.lists(VALUES, max_size=4))
def test_requests_rebuilt_by_the_proxy_pass_the_guard(
    user: str, groups: list[str], values: list[bytes]
) -> None:
    """Both ends agree on what a proper request is."""
    lines = b"".join(b"X-%d: %s\r\n" % (n, value) for n, value in enumerate(values))
    try:
        head = parse_head(b"GET /x HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n", HeadLimits())
    except BadHead:
        return
    block = identity_block(Impersonation(user, tuple(groups), extra=(("a/b", "c"),)))
    Guard(ImpersonationPolicy()).check(block, rebuild(head, b"/api/v1/pods?a=b", "id"))


TOKEN = b"GET /api HTTP/1.1\r\nAuthorization: Bearer a.b\r\n\r\n"


def test_a_users_own_token_passes_where_the_cluster_takes_it() -> None:
    """The agent adds nothing of its own then."""
    Guard(ImpersonationPolicy(passthrough=True)).check_passthrough(b"", TOKEN)
    with pytest.raises(ForwardingRefused):
        Guard(ImpersonationPolicy()).check_passthrough(b"", TOKEN)


@pytest.mark.parametrize(
    ("identity", "head"),
    [
        (b"Impersonate-User: a\r\n", TOKEN),
        (b"", HEAD),
        (b"", TOKEN.replace(b"Bearer", b"Basic")),
        (b"", TOKEN[:-2] + b"authorization: Bearer c\r\n\r\n"),
        (b"", TOKEN[:-2] + b"Impersonate-User: root\r\n\r\n"),
        (b"", TOKEN[:-2] + b"Host: x\r\n\r\n"),
        (b"", b"nonsense"),
    ],
)
def test_passthrough_takes_one_token_and_nothing_else(identity: bytes, head: bytes) -> None:
    """Two identities in one request are none."""
    with pytest.raises(ForwardingRefused):
        Guard(ImpersonationPolicy(passthrough=True)).check_passthrough(identity, head)
