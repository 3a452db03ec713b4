"""A repository that only a cluster reaches: git's own protocol, through that cluster's agent."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import Invalid, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from proxy.tunnel.egress import EgressProxy
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.egress import EgressPolicy
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.local_server import LocalServer, relay
from tests.integration.proxy.stack import Stack, eventually, signed
from towline.demo.git_server import GitServer, ServedRepository

MAIN = "refs/heads/main"


@dataclass
class Site:
    """A network of its own: a git server with TLS, and an agent that may reach only that."""

    mirror: GitMirror
    spec: RepositorySpec
    repository: ServedRepository
    agent: Tasks


async def _no_token() -> str:
    return "x"


async def _agent(stack: Stack, policy: EgressPolicy) -> None:
    upstream = Upstream("127.0.0.1", 1, None, _no_token)
    async with stack.channel() as channel:
        me, guard = signed("agent-token"), ImpersonationPolicy()
        client = TunnelClient(channel, me, upstream, SystemClock(), guard, egress=policy)
        await client.run()


@pytest.fixture
async def site(stack: Stack, git_server: GitServer, tmp_path: Path) -> AsyncIterator[Site]:
    """The git cache may not reach private addresses itself."""
    repository = git_server.create_repository("shop", password="pw")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stack.authority.certificate, stack.authority.key)
    front = LocalServer(lambda r, w: relay(r, w, git_server.port), tls=context)
    port = (await front.start()).port
    agent = Tasks("agent")
    agent.spawn("agent", _agent(stack, EgressPolicy.parse(f"localhost:{port}")))
    await eventually(lambda: stack.proxy.tunnels.is_connected(CLUSTER))
    egress = EgressProxy(SystemClock(), stack.proxy.tunnels.find)
    await egress.start()
    options = MirrorOptions(request_seconds=10, allow_private_hosts=False)
    mirror = GitMirror(tmp_path / "home", options, SystemClock(), egress=egress)
    await mirror.open()
    credentials = GitCredentials(password="pw", authority=stack.authority.ca.read_text())
    url = f"https://localhost:{port}/shop.git"
    spec = RepositorySpec(RepositoryId("shop"), url, frozenset({"main"}), credentials, via=CLUSTER)
    yield Site(mirror, spec, repository, agent)
    await mirror.close()
    await egress.stop()
    await agent.stop()
    await front.stop()


async def test_polls_clones_and_small_changes_go_through_the_agent(site: Site) -> None:
    """By connections of our own and by git itself."""
    for text in ("1", "2"):
        sha = site.repository.commit({"a.yaml": text})
        assert (await site.mirror.http_lister.list_refs(site.spec, [MAIN]))[MAIN] == sha
        assert (await site.mirror.git_lister.list_refs(site.spec, [MAIN]))[MAIN] == sha
        await site.mirror.clones.fetch(site.spec, {"m": sha})
        assert await site.mirror.reader.commit(site.spec, sha) is not None


async def test_without_the_agent_fetches_fail_and_the_clone_stays(site: Site) -> None:
    sha = site.repository.commit({"a.yaml": "1"})
    await site.mirror.clones.fetch(site.spec, {"m": sha})
    await site.agent.stop()
    for _ in range(2):
        with pytest.raises(Unavailable, match="agent"):
            await site.mirror.http_lister.list_refs(site.spec, [MAIN])
    assert await site.mirror.clones.pins(site.spec) == {"m": sha}
    assert await site.mirror.reader.commit(site.spec, sha) is not None


async def test_hosts_that_the_cluster_does_not_allow_are_not_reached(site: Site) -> None:
    """Nor is its network reached without its agent."""
    other = RepositorySpec(RepositoryId("other"), "https://localhost:1/x", frozenset(), via=CLUSTER)
    with pytest.raises(Unavailable, match="403"):
        await site.mirror.http_lister.list_refs(other, [MAIN])
    direct = RepositorySpec(RepositoryId("direct"), site.spec.url, frozenset())
    with pytest.raises(Invalid, match="is not allowed"):
        await site.mirror.http_lister.list_refs(direct, [MAIN])
