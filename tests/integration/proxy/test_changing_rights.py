"""Rights that change while a request is judged: what was true before lets nothing in."""

import asyncio
from collections.abc import Callable

import pytest

from core.open_streams import ALL_STREAMS
from proxy.domain.access import ImpersonationRule, RecordingPolicy
from proxy.domain.audit import EndReason
from tests.fakes.kube_proxy import FakeInstallation
from tests.integration.proxy.recording import RecordingUpstream
from tests.integration.proxy.stack import Stack, eventually
from tests.integration.proxy.user import User, request

# The user is looked up first, then the right.
LOOKUPS = pytest.mark.parametrize("lookup", [1, 2])


WATCH_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
UPGRADE = b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"

Change = Callable[[FakeInstallation], object]


class Held:
    """Holds one answer back between its reading and its arrival."""

    def __init__(self, lookup: int) -> None:
        self._left = lookup
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            await self.go_on.wait()


async def judged(
    stack: Stack, user: User, lookup: int, change: Callable[[FakeInstallation], None]
) -> tuple[int, bytes, bytes]:
    """The answer to a request during whose judgement something changes."""
    held = stack.installation.slow = Held(lookup)
    user.writer.write(request(b"GET", b"/api/v1/pods?watch=1"))
    async with asyncio.timeout(10):
        await held.reached.wait()
    change(stack.installation)
    await stack.proxy.gateway.recheck(None)
    held.go_on.set()
    return await user.answer()


@LOOKUPS
async def test_a_right_lost_meanwhile_is_lost(
    stack: Stack, recorder: RecordingUpstream, user: User, lookup: int
) -> None:
    status, _, _ = await judged(stack, user, lookup, lambda one: one.forbidden.add("ann"))
    assert (status, recorder.heads) == (403, [])


async def test_another_verdict_than_the_noted_one_opens_nothing(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The request's row tells by which right it was let in; the client asks anew."""
    rule = {"ann": ImpersonationRule(("*",), (), (), (), ())}
    status, _, body = await judged(stack, user, 2, lambda one: one.impersonation.update(rule))
    assert (status, recorder.heads) == (503, [])
    assert b"permissions changed" in body
    assert (await user.ask(request()))[0] == 200


@LOOKUPS
async def test_a_change_that_concerns_others_lets_pass(
    stack: Stack, recorder: RecordingUpstream, user: User, lookup: int
) -> None:
    status, _, _ = await judged(stack, user, lookup, lambda one: one.forbidden.add("root"))
    assert (status, len(recorder.heads)) == (200, 1)


async def test_rights_that_change_without_end_let_nothing_in(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    async def changes() -> None:
        stack.proxy.gateway.authorizer.forget(user=None, token=None, session=None)

    stack.installation.slow = changes
    status, _, _ = await user.ask(request())
    assert (status, recorder.heads) == (503, [])


async def watching(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(WATCH_HEAD)
    await reader.read()


async def talking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCH)
    await reader.read()


async def begun(stack: Stack, user: User, head: bytes) -> None:
    user.writer.write(head)
    await eventually(
        lambda: any(one.bytes_out for one in stack.proxy.local.open_streams(ALL_STREAMS))
    )


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (lambda one: one.groups.update(ann=("ops",)), True),
        (lambda one: one.groups.update(ann=()), True),
        (lambda one: one.groups.update(ann=("ops", "devs")), False),
        (lambda one: one.groups.update(root=()), False),
    ],
    ids=["another group", "no group", "one group more", "somebody else's"],
)
async def test_a_watch_ends_with_the_groups_that_it_acts_with(
    stack: Stack, recorder: RecordingUpstream, user: User, change: Change, ends: bool
) -> None:
    """The cluster has judged by groups: one that is lost ends what it let in."""
    recorder.script = watching
    await begun(stack, user, request(b"GET", b"/api/v1/pods?watch=1"))
    change(stack.installation)
    await stack.proxy.gateway.recheck("u1")
    if ends:
        with pytest.raises(ConnectionError):
            await user.rest()
        await eventually(lambda: stack.installation.closed_rows)
    reasons = [row.reason for row in stack.installation.closed_rows]
    assert reasons == [EndReason.REVOKED] * ends


async def test_acting_as_another_ends_with_the_right_to_it(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    recorder.script = watching
    rules = stack.installation.impersonation
    rules["ann"] = ImpersonationRule(("ben",), ("team-*",))
    asked = b"Impersonate-User: ben", b"Impersonate-Group: team-a"
    await begun(stack, user, request(b"GET", b"/api/v1/pods?watch=1", *asked))
    await stack.proxy.gateway.recheck(None)
    assert stack.installation.closed_rows == []
    rules["ann"] = ImpersonationRule(("ben",), ("team-b",))
    await stack.proxy.gateway.recheck(None)
    await eventually(lambda: stack.installation.closed_rows)
    assert [row.reason for row in stack.installation.closed_rows] == [EndReason.REVOKED]


@pytest.mark.parametrize("path", [b"/api/v1/namespaces/a/pods/b/exec?command=sh", b"/api/v1/pods"])
async def test_a_session_ends_where_policy_begins_to_record(
    stack: Stack, recorder: RecordingUpstream, user: User, path: bytes
) -> None:
    """And nothing else does."""
    terminal = b"exec" in path
    recorder.script = talking if terminal else watching
    more = UPGRADE if terminal else ()
    await begun(stack, user, request(b"GET", path, *more))
    stack.installation.recording = RecordingPolicy.OUTPUT
    await stack.proxy.gateway.recheck(None)
    if terminal:
        await eventually(lambda: stack.installation.closed_rows)
    reasons = [row.reason for row in stack.installation.closed_rows]
    assert reasons == [EndReason.REVOKED] * terminal


async def test_recording_forbids_each_read_of_a_node(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """No refused read leaves a cached authorization."""
    stack.installation.recording = RecordingPolicy.OUTPUT
    read = request(b"GET", b"/api/v1/nodes/n/proxy/metrics")
    assert [(await user.ask(read))[0] for _ in range(3)] == [403, 403, 403]
    assert recorder.heads == []
