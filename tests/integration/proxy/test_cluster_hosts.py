"""Addresses of clusters by host name: kubectl proxy, repeated reads, and hostile hosts."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.settings import ProxySettings
from syncagent.tunnel.upstream import Upstream
from tests.fakes.connectproxy import ConnectProxy
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.conftest import Kubectl, proxied_kubectl, stop
from tests.integration.proxy.recording import RecordingUpstream
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.integration.proxy.test_kubectl import forwarded_port
from tests.integration.proxy.user import User

DOMAIN = "clusters.example.org"
HOST = f"dev.{DOMAIN}"
TOKEN = b"Authorization: Bearer ann-token\r\n"
SESSION = b"Cookie: towline_session=ann-token\r\nX-Towline-CSRF: 1\r\n"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Certificates for all names of clusters."""
    return TestAuthority(tmp_path_factory.mktemp("tls"), host=f"*.{DOMAIN}")


@pytest.fixture
async def stack(authority: TestAuthority) -> AsyncIterator[Stack]:
    """A proxy with a domain of clusters."""
    async with run_stack(authority, ProxySettings(cluster_domain=DOMAIN)) as running:
        yield running


def get(host: str, path: str = "/api/v1/pods", fields: bytes = TOKEN) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n".encode() + fields + b"\r\n"


async def test_kubectl_proxy_needs_no_flag(
    stack: Stack, upstream: Upstream, kubectl_program: Path, tmp_path: Path
) -> None:
    """It drops the path of a server, so only the host can name the cluster."""
    await stack.connect(upstream)
    kubectl = proxied_kubectl(stack, kubectl_program, tmp_path / "kubeconfig")
    config = json.loads(kubectl.kubeconfig.read_text())
    async with ConnectProxy() as names:
        names.addresses[HOST] = "127.0.0.1"
        cluster = config["clusters"][0]["cluster"]
        cluster |= {"server": f"https://{HOST}:{stack.port}", "proxy-url": names.url}
        kubectl.kubeconfig.write_text(json.dumps(config))
        process = await kubectl.start("proxy", "--port=0")
        try:
            port = await forwarded_port(process)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            status, _, body = await User(reader, writer).ask(
                b"GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            writer.close()
        finally:
            await stop(process)
        done = await _namespaces(kubectl)
    assert (status, json.loads(body)["metadata"]["name"]) == (200, "default")
    assert "default" in done
    assert set(names.targets) == {f"{HOST}:{stack.port}"}


async def _namespaces(kubectl: Kubectl) -> str:
    process = await kubectl.start("get", "namespaces", "-o=name")
    out, _ = await process.communicate()
    return out.decode()


@pytest.mark.parametrize("host", [HOST, "DEV.Clusters.example.ORG:8443", f"{HOST}.", f"{HOST}.:1"])
async def test_every_path_of_the_host_is_that_of_the_cluster(
    stack: Stack, recorder: RecordingUpstream, user: User, host: str
) -> None:
    """Console, API and other clusters are not there, whoever asks."""
    paths = ["/", "/gql", "/login", "/healthz", "/k8s/clusters/other/api/v1/pods", "/api/v1?w=1"]
    for path in paths:
        assert (await user.ask(get(host, path)))[::2] == (200, b"ok")
    assert [head.split(b" ")[1].decode() for head in recorder.heads] == paths
    await eventually(lambda: len(stack.installation.closed_rows) == len(paths))
    assert {row.handle for row in stack.installation.closed_rows} == {"dev"}


@pytest.mark.parametrize(
    ("host", "fields", "status", "text"),
    [
        (HOST, b"", 401, b"no token"),
        (HOST, SESSION, 401, b"no token"),
        (f"other.{DOMAIN}", TOKEN, 404, b"other"),
        (f"-.{DOMAIN}", TOKEN, 404, b"the host must be"),
        (f"a.{HOST}", TOKEN, 404, b"the host must be"),
        (f"towline@{HOST}", TOKEN, 400, b"Host"),
        (f"{HOST}/x", TOKEN, 400, b"Host"),
        (f"{HOST}\r\nHost: proxy", TOKEN, 400, b"Host"),
        (f"proxy\r\nHost: {HOST}", TOKEN, 400, b"Host"),
    ],
)
async def test_hostile_hosts_reach_neither_cluster_nor_application(
    stack: Stack,
    recorder: RecordingUpstream,
    user: User,
    host: str,
    fields: bytes,
    status: int,
    text: bytes,
) -> None:
    """Each refusal is an error of Kubernetes, and has its row in the audit log."""
    found, _, body = await user.ask(get(host, "/gql", fields))
    assert (found, json.loads(body)["kind"]) == (status, "Status")
    assert text in body
    assert recorder.heads == []
    (row,) = stack.installation.closed_rows
    assert row.status == status


@pytest.mark.parametrize("host", ["proxy", DOMAIN, f"{HOST}.evil.example", "dev.example.org"])
async def test_other_hosts_have_the_application_and_clusters_by_path(
    stack: Stack, recorder: RecordingUpstream, user: User, host: str
) -> None:
    """The application answers to its own names alone, by a check of its own."""
    assert (await user.ask(get(host, "/gql")))[2] == b"GET /gql 0"
    assert (await user.ask(get(host, "/k8s/clusters/dev/version")))[2] == b"ok"
    assert [head.split(b" ")[1] for head in recorder.heads] == [b"/version"]


async def test_repeated_reads_go_by_their_host(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Also those that the native data plane serves: no answer is that of another host."""
    for _ in range(6):
        assert (await user.ask(get(HOST, "/gql")))[2] == b"ok"
        assert (await user.ask(get("proxy", "/gql")))[2] == b"GET /gql 0"
        assert (await user.ask(get(f"other.{DOMAIN}", "/gql")))[0] == 404
    if (front := stack.proxy.front) is not None:
        await eventually(lambda: front.repeats.served > 0)
    assert len(recorder.heads) == 6
