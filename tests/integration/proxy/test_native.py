"""The native data plane: what it serves, what it leaves to Python, and how a decision ends."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from structlog.testing import capture_logs

from core.native import data_link_version, describe_data_link_versions
from core.open_streams import ALL_STREAMS
from core.trusted_proxies import TrustedProxies
from proxy.domain.audit import EndReason
from proxy.domain.limits import StreamLimits
from proxy.settings import DataPlane, ProxySettings
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.recording import OK, RecordingUpstream, recording_upstream
from tests.integration.proxy.scripts import hang
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.integration.proxy.user import User, request
from tests.planes import needs_native

pytestmark = needs_native
BALANCER = "127.0.0.3"
HEADERS = [
    b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x09\x0a\x00\x00\x01\x12\x67\x01\xbb",
]
AUDIT_ID = re.compile(rb"Audit-ID: ([0-9a-f]{32})\r\n")


@pytest.fixture
def limits() -> StreamLimits:
    return StreamLimits()


@pytest.fixture
async def stack(authority: TestAuthority, limits: StreamLimits) -> AsyncIterator[Stack]:
    """A proxy with the native data plane."""
    settings = ProxySettings(data_plane=DataPlane.NATIVE, streams=limits)
    async with run_stack(authority, settings) as running:
        yield running


@pytest.fixture
async def recorder(stack: Stack) -> AsyncIterator[RecordingUpstream]:
    """A stand-in for the API server, behind an agent whose data link is open."""
    async with recording_upstream() as server:
        await stack.connect(server.upstream)
        await eventually(lambda: has_data_link(stack))
        yield server


def has_data_link(stack: Stack) -> bool:
    """Reports whether the agent of the cluster has opened its data link."""
    front, link = stack.proxy.front, stack.proxy.tunnels.find(CLUSTER)
    return front is not None and link is not None and front.links.find_or_offer(link) > 0


def served(stack: Stack) -> int:
    """Number of requests that the native hub has served and recorded."""
    assert stack.proxy.front is not None
    return stack.proxy.front.repeats.served


async def learn(stack: Stack, user: User) -> None:
    """Ask until the native hub serves the request."""
    before = served(stack)
    for _ in range(3):
        assert (await user.ask(request()))[0] == 200
    await eventually(lambda: served(stack) > before)


async def test_a_repeated_read_is_served_without_python(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Same response, same head at the API server but for its audit ID, one audit row each."""
    for _ in range(20):
        assert (await user.ask(request()))[::2] == (200, b"ok")
    rows = stack.installation.closed_rows
    await eventually(lambda: len(rows) == 20)
    assert served(stack) >= 18
    sent = [AUDIT_ID.findall(head) for head in recorder.heads]
    assert sorted(sent) == sorted([row.id.encode()] for row in rows)
    assert len({row.id for row in rows}) == 20
    heads = {frozenset(AUDIT_ID.sub(b"", head).split(b"\r\n")) for head in recorder.heads}
    assert len(heads) == 1
    described = {(row.identity, row.source, row.status, row.bytes_out, row.reason) for row in rows}
    assert len(described) == 1


async def test_users_share_a_decision_only_with_the_same_credential(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Another token on the same connection, path and fields gets its own answer."""
    await learn(stack, user)
    assert (await user.ask(request(token=b"unknown")))[0] == 401


async def test_a_lost_permission_counts_at_once(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """After a revocation no request passes by the old decision, on any connection."""
    await learn(stack, user)
    stack.installation.forbidden.add("ann")
    await stack.proxy.gateway.recheck("u1")
    seen = len(recorder.heads)
    assert (await user.ask(request()))[0] == 403
    assert len(recorder.heads) == seen


async def test_an_open_request_is_listed_and_can_be_revoked(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """A response that has begun ends with a reset, never as if it were complete."""
    await learn(stack, user)
    recorder.script = hang
    user.writer.write(request())
    await user.reader.readuntil(b"begun")
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert (listed.user, listed.cluster_id) == ("ann", CLUSTER)
    assert stack.proxy.gateway.revoke(user="u1") == 1
    with pytest.raises(ConnectionResetError):
        await user.rest()
    await eventually(lambda: stack.installation.closed_rows[-1].reason is EndReason.REVOKED)
    assert not stack.proxy.local.open_streams(ALL_STREAMS)


async def test_a_user_who_leaves_ends_the_request_at_the_api_server(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The API server does not work for nobody."""
    await learn(stack, user)
    left = asyncio.Event()

    async def until_left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang(reader, writer)
        left.set()

    recorder.script = until_left
    user.writer.write(request())
    await user.reader.readuntil(b"begun")
    user.writer.close()
    async with asyncio.timeout(5):
        await left.wait()
    await eventually(lambda: stack.installation.closed_rows[-1].reason is EndReason.USER_LEFT)


async def test_requests_go_on_when_the_data_link_ends(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Over the control link, without an error for the user."""
    await learn(stack, user)
    front, link = stack.proxy.front, stack.proxy.tunnels.find(CLUSTER)
    assert front is not None and link is not None
    front.links.forget(link)
    for _ in range(3):
        assert (await user.ask(request()))[::2] == (200, b"ok")


async def test_ends_with_other_versions_of_the_data_link_say_so_and_use_the_control_link(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users notice only that they wait longer, so the logs of both ends and a metric tell."""
    agent_version = data_link_version()
    monkeypatch.setattr("proxy.compose.data_link_version", lambda: agent_version + 1)
    settings = ProxySettings(data_plane=DataPlane.NATIVE)
    with capture_logs() as logged:
        async with run_stack(authority, settings) as stack, recording_upstream() as server:
            await stack.connect(server.upstream)
            user = User(*await asyncio.open_connection("127.0.0.1", stack.plain_port))
            for _ in range(5):
                assert (await user.ask(request()))[::2] == (200, b"ok")
            user.writer.close()
            assert (has_data_link(stack), served(stack)) == (False, 0)
            assert stack.proxy.tunnels.incompatible_agents == 1
    why = [entry["why"] for entry in logged if entry["event"] == "no data link"]
    assert why == [describe_data_link_versions(agent_version + 1, agent_version)] * 2


async def test_ends_with_the_same_version_say_nothing(
    stack: Stack, recorder: RecordingUpstream
) -> None:
    assert stack.proxy.tunnels.incompatible_agents == 0


@pytest.mark.parametrize("turns", range(8))
async def test_an_agent_that_is_cancelled_again_while_it_ends_leaves_no_connection(
    stack: Stack, user: User, turns: int
) -> None:
    """At any turn of the loop. The module keeps its own one as long as the client exists."""
    async with recording_upstream() as server:
        agent = await stack.connect(server.upstream)
        await eventually(lambda: has_data_link(stack))
        await learn(stack, user)
        # Python serves a write.
        assert (await user.ask(request(b"DELETE")))[0] == 200
        assert server.open == 2
        agent.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        agent.cancel()
        await eventually(lambda: server.open == 1)


async def test_a_cluster_that_freezes_ends_open_requests(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Also those that Python does not see."""
    await learn(stack, user)
    recorder.script = hang
    user.writer.write(request())
    await user.reader.readuntil(b"begun")
    assert stack.client is not None
    stack.client.end_streams("an incident")
    with pytest.raises(ConnectionResetError):
        await user.rest()


async def test_the_agent_checks_a_request_that_it_has_not_admitted(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """And serves it natively, with the identity and credential of the control link."""
    await learn(stack, user)
    assert stack.client is not None
    stack.client.end_streams("an incident that is over")
    before, seen = served(stack), len(recorder.heads)
    assert (await user.ask(request()))[::2] == (200, b"ok")
    await eventually(lambda: served(stack) == before + 1)
    heads = [AUDIT_ID.sub(b"", head) for head in recorder.heads]
    assert heads[seen:] == heads[:1]


async def test_a_frozen_agent_serves_nothing_over_its_data_link(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The user gets the reason, which the control link carries."""
    await learn(stack, user)
    assert stack.client is not None
    stack.frozen = "an incident"
    stack.client.end_streams(stack.frozen)
    seen = len(recorder.heads)
    status, _, body = await user.ask(request())
    assert (status, b"refuses all requests: an incident" in body) == (503, True)
    assert len(recorder.heads) == seen


async def test_the_agent_checks_the_identity_of_a_request_on_its_data_link(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Although the control plane has authorized it."""
    await learn(stack, user)
    stack.installation.groups["ann"] = ("system:masters",)
    await stack.proxy.gateway.recheck("u1")
    for _ in range(3):
        assert (await user.ask(request()))[0] == 403


async def test_a_response_with_excess_bytes_reaches_no_other_request(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Bytes behind the end of a response are dropped with their connection."""
    await learn(stack, user)
    recorder.answer = OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    answers = [(await user.ask(request()))[2] for _ in range(2)]
    assert b"evil" not in b"".join(answers)


@pytest.mark.parametrize("limits", [StreamLimits(per_user_and_cluster=2)])
async def test_a_user_has_one_limit_on_both_paths(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Requests that the native hub serves count beside those that Python serves."""
    await learn(stack, user)
    recorder.script = hang
    async with AsyncExitStack() as leaving:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
            leaving.callback(writer.close)
            writer.write(request())
            await reader.readuntil(b"begun")
        assert (await user.ask(request(path=b"/api/v1/nodes")))[0] == 429
        assert (await user.ask(request()))[0] == 429


async def test_a_project_has_one_limit_on_both_paths(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Reads that repeat a decision count as open requests of the project, too."""
    stack.installation.stream_limits = (("shop", 2),)
    for _ in range(3):
        assert (await user.ask(request()))[0] == 200
    recorder.script = hang
    async with AsyncExitStack() as leaving:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
            leaving.callback(writer.close)
            writer.write(request())
            await reader.readuntil(b"begun")
        status, _, body = await user.ask(request())
        assert (status, b"which may have 2" in body) == (429, True)


async def test_pipelined_requests_are_answered_in_order(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Known and unknown heads in one segment."""
    await learn(stack, user)
    other = request(path=b"/api/v1/nodes")
    user.writer.write(request() + other + request() + request())
    seen = len(recorder.heads)
    for _ in range(4):
        assert (await user.answer())[0] == 200
    targets = [head.split()[1] for head in recorder.heads[seen:]]
    assert targets == [b"/api/v1/pods", b"/api/v1/nodes", b"/api/v1/pods", b"/api/v1/pods"]


@pytest.fixture
async def balanced(authority: TestAuthority) -> AsyncIterator[Stack]:
    """A proxy behind a load balancer that sends the PROXY protocol, and an agent beside it."""
    settings = ProxySettings(data_plane=DataPlane.NATIVE)
    balancers = TrustedProxies([f"{BALANCER}/32"])
    async with (
        run_stack(authority, settings, balancers=balancers) as stack,
        recording_upstream() as server,
    ):
        await stack.connect(server.upstream)
        await eventually(lambda: has_data_link(stack))
        yield stack


@asynccontextmanager
async def user_from(address: str, port: int) -> AsyncGenerator[User]:
    """A connection from this address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    yield User(reader, writer)
    writer.close()


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("tls", [True, False])
async def test_a_load_balancer_names_its_client(balanced: Stack, header: bytes, tls: bool) -> None:
    """Ahead of TLS; for requests that Python serves, and for those that it does not."""
    port = balanced.port if tls else balanced.plain_port
    async with user_from(BALANCER, port) as user:
        user.writer.write(header)
        if tls:
            trusting = ssl.create_default_context(cafile=balanced.authority.ca)
            await user.writer.start_tls(trusting, server_hostname="127.0.0.1")
        await learn(balanced, user)
    sources = {row.source for row in balanced.installation.closed_rows}
    assert sources == {"203.0.113.9:4711"}


@pytest.mark.parametrize("start", [request(), b"PROXY TCP4 203.0.113.9\r\n"])
async def test_a_load_balancer_without_a_header_is_refused(balanced: Stack, start: bytes) -> None:
    async with user_from(BALANCER, balanced.plain_port) as user:
        user.writer.write(start)
        assert not await user.rest()
    assert balanced.proxy.front is not None
    ((peer, reason),) = balanced.proxy.front.hub.take_refused()
    assert (peer, "header" in reason) == (BALANCER, True)


@pytest.mark.parametrize("header", HEADERS)
async def test_only_load_balancers_may_name_a_client(balanced: Stack, header: bytes) -> None:
    async with user_from("127.0.0.1", balanced.plain_port) as user:
        assert (await user.ask(header + request()))[0] == 400
    rows = balanced.installation.closed_rows
    assert all(row.source.startswith("127.0.0.1:") for row in rows)
