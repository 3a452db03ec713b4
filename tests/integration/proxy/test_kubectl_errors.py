"""kubectl prints the proxy's own sentence for each refusal."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import Unavailable
from proxy.domain.access import LastContact
from proxy.domain.limits import StreamLimits
from proxy.settings import ProxySettings
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import ANN, CLUSTER
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.conftest import Kubectl, proxied_kubectl
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.integration.proxy.user import User, request

PROTOBUF = b"Accept: application/vnd.kubernetes.protobuf"


async def no_token() -> str:
    return "token"


@pytest.fixture
def kubectl(stack: Stack, kubectl_program: Path, tmp_path: Path) -> Kubectl:
    """The user ann's, with a discovery cache as cold as can be."""
    return proxied_kubectl(stack, kubectl_program, tmp_path / "errors.kubeconfig")


async def unknown_cluster(stack: Stack, kubectl: Kubectl) -> None:
    path = kubectl.kubeconfig
    path.write_text(path.read_text().replace("clusters/dev", "clusters/other"))


async def away(stack: Stack, kubectl: Kubectl) -> None:
    at = stack.proxy.gateway.clock.now() - timedelta(minutes=3, seconds=12)
    stack.installation.seen = LastContact(at)


async def without_tunnel(stack: Stack, kubectl: Kubectl) -> None:
    problem = "the agent reports: no tunnel for kubectl: gateway"
    stack.installation.seen = LastContact(stack.proxy.gateway.clock.now(), problem)


async def forbidden(stack: Stack, kubectl: Kubectl) -> None:
    stack.installation.forbidden.add("ann")


async def expired(stack: Stack, kubectl: Kubectl) -> None:
    ended = stack.proxy.gateway.clock.now() - timedelta(minutes=1)
    stack.installation.users["ann-token"] = replace(ANN, expires_at=ended)


async def unreachable(stack: Stack, kubectl: Kubectl) -> None:
    await stack.connect(Upstream("127.0.0.1", 1, None, no_token))


Prepare = Callable[[Stack, Kubectl], Awaitable[None]]
CASES: dict[str, tuple[Prepare, str]] = {
    "unknown cluster": (unknown_cluster, 'cluster "other" not found, or you have no access to it'),
    "agent without a tunnel": (
        without_tunnel,
        "s ago; the agent reports: no tunnel for kubectl: gateway",
    ),
    "agent away": (away, 'cluster "dev" is not connected: agent last seen 3m1'),
    "forbidden": (forbidden, 'user "ann" may not '),
    "token expired": (expired, "run towline login"),
    "API server unreachable": (unreachable, 'the agent of "dev" cannot reach its API server: '),
}


@pytest.mark.parametrize("name", CASES)
async def test_kubectl_prints_the_reason(stack: Stack, kubectl: Kubectl, name: str) -> None:
    """At once, with exit code 1, for a plain read."""
    prepare, said = CASES[name]
    await prepare(stack, kubectl)
    async with asyncio.timeout(10):
        done = await kubectl("get", "pods")
    assert done.code == 1
    assert said in done.err


@pytest.mark.parametrize("verb", ["get --raw /api/v1/pods", "get --raw /api/v1/pods?watch=1"])
async def test_a_cut_answer_is_an_error(
    stack: Stack, recorder: RecordingUpstream, kubectl: Kubectl, verb: str
) -> None:
    """An API server that dies in the middle of an answer never looks like its end."""

    async def half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()

    recorder.script = half
    done = await kubectl(*verb.split())
    assert done.code == 1
    assert "unexpected EOF" in done.err or "connection reset" in done.err
    await eventually(lambda: stack.installation.closed_rows)


async def test_a_store_that_is_away_stops_writes_only(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """503 before anything is sent; reads go on."""
    stack.installation.audit_fails = Unavailable("the audit trail cannot be written")
    post = request(b"POST", b"/api/v1/namespaces/a/pods", b"Content-Length: 2", body=b"{}")
    status, _, body = await user.ask(post)
    assert (status, b"cannot be written" in body) == (503, True)
    assert recorder.heads == []
    assert (await user.ask(request()))[0] == 200


async def test_overload_is_reported_as_kubernetes_does(authority: TestAuthority) -> None:
    """429 with Retry-After while somebody has all their slots open, for plain requests too."""
    settings = ProxySettings(streams=StreamLimits(per_user_and_cluster=1))
    async with run_stack(authority, settings) as stack, recording_upstream() as server:
        hold = asyncio.Event()

        async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hold.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        server.script = script
        await stack.connect(server.upstream)
        pairs = [await asyncio.open_connection("127.0.0.1", stack.plain_port) for _ in range(2)]
        first, second = (User(*pair) for pair in pairs)
        first.writer.write(request())
        await eventually(lambda: server.heads)
        status, head, body = await second.ask(request())
        assert status == 429
        assert b"Retry-After: 1\r\n" in head
        assert b'1 requests open for \\"ann\\" on \\"dev\\"' in body
        hold.set()
        assert (await first.answer())[0] == 200
        for _, writer in pairs:
            writer.close()


async def test_clients_that_accept_only_protobuf_get_it(stack: Stack, user: User) -> None:
    """In the answer's body; the sentence is in the Warning as well."""
    status, head, body = await user.ask(request(b"GET", b"/api/v1/pods", PROTOBUF, token=b""))
    assert status == 401
    assert b"Content-Type: application/vnd.kubernetes.protobuf\r\n" in head
    assert body.startswith(b"k8s\0") and b"run towline login" in body
    assert b'Warning: 299 towline "the request has no token' in head


async def test_an_agent_learns_why_it_has_no_tunnel(stack: Stack) -> None:
    """Of two agents with one token, the one that is refused can tell both addresses."""
    upstream, reasons = Upstream("127.0.0.1", 1, None, no_token), list[str]()
    async with asyncio.timeout(30):
        while not reasons:
            agent = stack.tasks.spawn("agent", stack.agent(upstream, "agent-token"))
            link = stack.proxy.tunnels.find(CLUSTER)
            await eventually(
                lambda link=link, agent=agent: (
                    agent.done() or stack.proxy.tunnels.find(CLUSTER) not in {None, link}
                )
            )
            if agent.done():
                reasons.append(agent.result())
    assert reasons[0].startswith("two agents use this cluster's deploy token")
