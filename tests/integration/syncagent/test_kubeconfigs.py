"""Tunnels of agents with the kubeconfigs of kind, k3s, kubeadm and Rancher, and of exec plugins."""

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession, web

from core.errors import Invalid
from core.runtime.clock import SystemClock
from syncagent import compose
from syncagent.kube.access import from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.settings import HubSettings, KubernetesSettings
from syncagent.upkeep.doctor import DoctorResult, diagnose
from tests.fakes.connectproxy import ConnectProxy
from tests.fakes.kube_proxy import AGENT_TOKEN as AGENT_ID
from tests.fakes.tls import TestAuthority
from tests.integration.syncagent.conftest import Bench
from tests.integration.syncagent.proxies import AGENT_TOKEN, ProxyHub, proxy_hub
from tests.integration.syncagent.test_tunnel import RIGHTS, User, until_connected

PREFIX = "/k8s/clusters/c-m-abc"
PLUGIN = """
import json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
folder = pathlib.Path(__file__).parent
(folder / "runs").open("a").write("x")
status = {"clientCertificateData": (folder / "crt").read_text(),
          "clientKeyData": (folder / "key").read_text()}
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def proxy(authority: TestAuthority) -> AsyncIterator[ProxyHub]:
    async with proxy_hub(authority) as running:
        running.hub.pulse_ms = 1_000
        yield running


@asynccontextmanager
async def agent_of(bench: Bench, proxy: ProxyHub, kubeconfig: Path) -> AsyncGenerator[None]:
    """The agent with this kubeconfig, linked to the hub."""
    await asyncio.to_thread(bench.cluster.kubectl, "apply", "-f", "-", stdin=json.dumps(RIGHTS))
    bench.settings = replace(
        bench.settings,
        hub=HubSettings(proxy.hub.address, AGENT_TOKEN),
        kubernetes=KubernetesSettings(kubeconfig),
    )
    async with bench.agent():
        yield


async def check_access(bench: Bench, proxy: ProxyHub, kubernetes: Path, folder: Path) -> None:
    """kubectl reads, writes, streams and executes as the user, and never as the agent."""
    await until_connected(proxy)
    ann = User(kubernetes / "kubectl", proxy.kubeconfig(folder / "ann"))
    who = json.loads(await ann("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (who["username"], "devs" in who["groups"]) == ("ann", True)
    literal = f"--from-literal=a={'x' * 50_000}"
    await ann("create", "configmap", "big", "-n", bench.namespace, literal)
    assert "big" in await ann("get", "configmaps", "-n", bench.namespace)
    assert json.loads(await ann("get", "--raw", "/version"))["major"] == "1"
    proxy.installation.groups["ann"] = ()
    await proxy.proxy.gateway.recheck(None)
    refused = await ann.refusal("get", "configmaps", "-n", bench.namespace)
    assert 'User "ann" cannot list resource "configmaps"' in refused


async def test_a_client_certificate(
    bench: Bench, proxy: ProxyHub, kubernetes: Path, tmp_path: Path
) -> None:
    """Like the kubeconfigs of kind, k3s and kubeadm."""
    assert "client-certificate" in bench.cluster.kubeconfig.read_text()
    async with agent_of(bench, proxy, bench.cluster.kubeconfig):
        await check_access(bench, proxy, kubernetes, tmp_path)


async def test_a_plugin_that_returns_a_certificate(
    bench: Bench, proxy: ProxyHub, kubernetes: Path, tmp_path: Path
) -> None:
    """Its command is relative to the kubeconfig, and its own version of the API is asked for."""
    cluster, user = _parts(bench)
    for name, key in (("crt", "client-certificate-data"), ("key", "client-key-data")):
        (tmp_path / name).write_bytes(base64.b64decode(user[key]))
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\n{PLUGIN}")
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1beta1"
    path = _kubeconfig(tmp_path, cluster, {"exec": {"command": "./plugin", "apiVersion": api}})
    async with agent_of(bench, proxy, path):
        await check_access(bench, proxy, kubernetes, tmp_path)
    assert (tmp_path / "runs").read_text() == "x"


async def test_a_path_prefix_without_a_credential(
    bench: Bench, proxy: ProxyHub, kubernetes: Path, tmp_path: Path
) -> None:
    """`kubectl proxy` is both: a prefix, and connections with permissions of their own."""
    process = await asyncio.create_subprocess_exec(
        kubernetes / "kubectl",
        f"--kubeconfig={bench.cluster.kubeconfig}",
        "proxy",
        "--port=0",
        f"--api-prefix={PREFIX}/",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = re.search(rb"127.0.0.1:(\d+)", await process.stdout.readline())
    assert said is not None
    server = f"http://127.0.0.1:{int(said[1])}{PREFIX}"
    try:
        async with agent_of(bench, proxy, _kubeconfig(tmp_path, {"server": server}, {})):
            await check_access(bench, proxy, kubernetes, tmp_path)
    finally:
        process.terminate()
        await process.communicate()


async def test_a_proxy_and_a_server_name(
    bench: Bench, proxy: ProxyHub, kubernetes: Path, tmp_path: Path
) -> None:
    """As before a private API server: only the proxy resolves its host, which no certificate has.
    kubectl itself works with the same kubeconfig.
    """
    cluster, user = _parts(bench)
    async with ConnectProxy() as way:
        way.addresses["private.invalid"] = "127.0.0.1"
        port = urlsplit(cluster["server"]).port
        private = {
            "server": f"https://private.invalid:{port}",
            "tls-server-name": "kubernetes.default.svc",
            "proxy-url": way.url,
        }
        path = _kubeconfig(tmp_path, {**cluster, **private}, dict(user))
        direct = User(kubernetes / "kubectl", path)
        assert json.loads(await direct("get", "--raw", "/version"))["major"] == "1"
        async with agent_of(bench, proxy, path):
            await check_access(bench, proxy, kubernetes, tmp_path)
    assert set(way.targets) == {f"private.invalid:{port}"}


async def test_a_gateway_that_drops_impersonation_gets_no_request_of_users(
    bench: Bench, proxy: ProxyHub, kubernetes: Path, tmp_path: Path
) -> None:
    """Users would act as the agent. kubectl and the agent's pulses say why there is no tunnel."""
    async with _forgetful_gateway(bench) as server:
        cluster = {"server": f"{server}{PREFIX}"}
        async with agent_of(bench, proxy, _kubeconfig(tmp_path, cluster, {"token": "t"})):
            await proxy.hub.until(
                lambda: any("drops Impersonate-User" in c for c in proxy.hub.problems)
            )
            assert not proxy.connected
    assert proxy.hub.problems[-1].startswith("no tunnel for kubectl: the server of the kubeconfig")


async def test_the_reason_of_a_closed_tunnel_is_reported(bench: Bench, proxy: ProxyHub) -> None:
    """A refusal of the control plane is the agent's to tell, until it is over."""
    async with agent_of(bench, proxy, bench.cluster.kubeconfig):
        await until_connected(proxy)
        proxy.installation.agents.clear()
        proxy.proxy.tunnels.revoke(AGENT_ID)
        problem = "no tunnel for kubectl: not an agent token of this installation"
        await proxy.hub.until(lambda: proxy.hub.problems[-1:] == [problem])
        proxy.installation.agents[AGENT_TOKEN] = AGENT_ID
        await until_connected(proxy)
        await proxy.hub.until(lambda: proxy.hub.problems[-1:] == [""])


@pytest.mark.parametrize(
    ("token", "good", "text"),
    [
        (AGENT_TOKEN, True, "the control plane accepts it"),
        ("other", False, "no tunnel for kubectl: not an agent token of this installation"),
    ],
)
async def test_the_doctor_tries_the_tunnel(
    bench: Bench, proxy: ProxyHub, token: str, good: bool, text: str
) -> None:
    """A running agent keeps its own."""
    async with agent_of(bench, proxy, bench.cluster.kubeconfig):
        await until_connected(proxy)
        proxy.hub.token = token
        hub = HubSettings(proxy.hub.address, token)
        found = await _diagnose(bench, hub, bench.cluster.kubeconfig)
        assert (found.good, found.text, found.needed) == (good, text, False)
        assert proxy.connected


async def test_the_doctor_finds_a_gateway_that_drops_impersonation(
    bench: Bench, proxy: ProxyHub, tmp_path: Path
) -> None:
    async with _forgetful_gateway(bench) as server:
        kubeconfig = _kubeconfig(tmp_path, {"server": f"{server}{PREFIX}"}, {"token": "t"})
        hub = HubSettings(proxy.hub.address, AGENT_TOKEN)
        found = await _diagnose(bench, hub, kubeconfig)
    assert not found.good and "drops Impersonate-User" in found.text


async def test_own_tokens_of_users_need_an_agent_with_a_token(bench: Bench) -> None:
    """Beside a client certificate, the API server would not even look at them."""
    kubernetes = KubernetesSettings(bench.cluster.kubeconfig, passthrough=True)
    with pytest.raises(Invalid, match="passthrough needs a kubeconfig with a token"):
        compose.build(replace(bench.settings, kubernetes=kubernetes))


async def _diagnose(bench: Bench, hub: HubSettings, kubeconfig: Path) -> DoctorResult:
    """The doctor's finding on the tunnel."""
    clock, settings = SystemClock(), KubernetesSettings(kubeconfig)
    access = compose.access_to(settings, clock)
    client = KubeClient(access, clock)
    check = partial(compose.tunnel_problem, settings, access, client, clock)
    try:
        steps = diagnose(compose.control_plane_access(hub), client, bench.state, check)
        return [step async for step in steps if step.step == "tunnel"][0]
    finally:
        await client.close()


def _parts(bench: Bench) -> tuple[dict[str, str], dict[str, str]]:
    """The cluster and the user of the administrator's kubeconfig."""
    view = bench.cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    config = json.loads(view)
    return config["clusters"][0]["cluster"], config["users"][0]["user"]


def _kubeconfig(folder: Path, cluster: dict[str, str], user: dict[str, object]) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def _forgetful_gateway(bench: Bench) -> AsyncGenerator[str]:
    """A gateway before the API server that acts as its administrator, whomever a client names."""
    access = from_kubeconfig(bench.cluster.kubeconfig, None, SystemClock())
    assert access.tls is not None
    tls = access.tls()
    async with ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            path, body = request.raw_path.removeprefix(PREFIX), await request.read()
            url = bench.cluster.server + path
            kind = {"Content-Type": request.headers.get("Content-Type", "application/json")}
            async with session.request(
                request.method, url, data=body, headers=kind, ssl=tls
            ) as answer:
                return web.Response(
                    status=answer.status,
                    body=await answer.read(),
                    content_type=answer.content_type,
                )

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
