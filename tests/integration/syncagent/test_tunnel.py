"""The whole agent with its tunnel: kubectl through a proxy, and hubs that drain."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import Unavailable
from syncagent.settings import HubSettings, KubernetesSettings
from tests.fakes.tls import TestAuthority
from tests.integration.syncagent.conftest import Bench
from tests.integration.syncagent.proxies import AGENT_TOKEN, ProxyHub, Relay, proxy_hub
from towline.demo.clusters.agent_access import agent_kubeconfig

RIGHTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "tunnel-test-devs"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}],
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Certificates for 127.0.0.1."""
    return TestAuthority(tmp_path_factory.mktemp("tls"))


SPEAKER = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount",
         "metadata": {"name": "people", "namespace": "default"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
         "metadata": {"name": "tunnel-test-people"},
         "rules": [
             {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
             {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"],
              "resourceNames": ["devs"]},
             {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/towline/token"],
              "verbs": ["impersonate"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
         "metadata": {"name": "tunnel-test-people"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                     "name": "tunnel-test-people"},
         "subjects": [{"kind": "ServiceAccount", "name": "people", "namespace": "default"}]}],
}  # fmt: skip


@asynccontextmanager
async def tunnelling(bench: Bench, address: str, impersonator: str = "") -> AsyncGenerator[None]:
    """The agent with a service account's token, linked to `address`."""
    access = bench.cluster.access
    bench.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(RIGHTS))
    kubeconfig = await asyncio.to_thread(agent_kubeconfig, access, bench.state / "kubeconfig")
    bench.settings = replace(
        bench.settings,
        hub=HubSettings(address, AGENT_TOKEN),
        kubernetes=KubernetesSettings(kubeconfig, impersonator=impersonator),
    )
    async with bench.agent():
        yield


class User:
    """kubectl through one hub's proxy."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._command = (program, f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig}.cache")
        self._env = {"HOME": str(kubeconfig.parent), "PATH": "/usr/bin:/bin"}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start kubectl with its output in a pipe."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdout=pipe, stderr=pipe, env=self._env
        )

    async def __call__(self, *arguments: str) -> str:
        """Run kubectl; what it printed."""
        code, out, err = await self._run(*arguments)
        assert code == 0, err
        return out

    async def refusal(self, *arguments: str) -> str:
        """The same where it fails; why."""
        code, _, err = await self._run(*arguments)
        assert code != 0
        return err

    async def _run(self, *arguments: str) -> tuple[int | None, str, str]:
        process = await self.start(*arguments)
        async with asyncio.timeout(30):
            out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


async def until_connected(hub: ProxyHub) -> None:
    async with asyncio.timeout(60):
        while not hub.connected:
            await asyncio.sleep(0.02)


async def line_of(watch: asyncio.subprocess.Process) -> str:
    assert watch.stdout is not None and watch.stderr is not None
    async with asyncio.timeout(60):
        line = (await watch.stdout.readline()).decode().strip()
        return line or f"ended: {(await watch.stderr.read()).decode()}"


async def watch_under_way(user: User, namespace: str) -> asyncio.subprocess.Process:
    """A watch that has returned a ConfigMap created after its list."""
    watch = await user.start("get", "configmaps", "-n", namespace, "-o", "name", "--watch")
    assert await line_of(watch) == "configmap/kube-root-ca.crt"
    await user("create", "configmap", "early", "-n", namespace)
    assert await line_of(watch) == "configmap/early"
    return watch


async def test_kubectl_through_the_agent(
    bench: Bench, authority: TestAuthority, kubernetes: Path, tmp_path: Path
) -> None:
    """What the agent applied is read, as the user and not as the agent, through its own tunnel."""
    async with proxy_hub(authority) as hub, tunnelling(bench, hub.hub.address):
        hub.hub.want("web", [bench.config("c")], namespace=bench.namespace)
        await until_connected(hub)
        ann = User(kubernetes / "kubectl", hub.kubeconfig(tmp_path / "ann"))
        await hub.hub.until(lambda: hub.hub.components("web"))
        shown = await ann("get", "configmap", "c", "-n", bench.namespace, "-o", "json")
        assert json.loads(shown)["data"] == {"key": "value"}
        who = json.loads(await ann("auth", "whoami", "-o", "json"))
        assert who["status"]["userInfo"]["username"] == "ann"


async def test_an_account_that_only_impersonates_speaks_for_people(
    bench: Bench, authority: TestAuthority, kubernetes: Path, tmp_path: Path
) -> None:
    """Groups that its role lists pass; others, and those of the system, whoever asks for them."""
    await asyncio.to_thread(bench.cluster.kubectl, "apply", "-f", "-", stdin=json.dumps(SPEAKER))
    hub_of = proxy_hub(authority)
    async with hub_of as hub, tunnelling(bench, hub.hub.address, "default:people"):
        await until_connected(hub)
        ann = User(kubernetes / "kubectl", hub.kubeconfig(tmp_path / "ann"))
        who = json.loads(await ann("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        assert (who["username"], "devs" in who["groups"]) == ("ann", True)
        assert "kube-root-ca.crt" in await ann("get", "configmaps", "-n", bench.namespace)
        for group, said in (
            ("ops", 'cannot impersonate resource "groups"'),
            ("system:masters", '"system:masters" may not be impersonated'),
            ("system:nodes", '"system:nodes" may not be impersonated'),
        ):
            hub.installation.groups["ann"] = ("devs", group)
            await hub.proxy.gateway.recheck(None)
            assert said in await ann.refusal("get", "configmaps", "-n", bench.namespace)
    with pytest.raises(Unavailable):
        speaker = "--as=system:serviceaccount:default:people"
        await bench.kubectl("auth", "can-i", "list", "configmaps", "-q", speaker)


async def test_a_watch_outlives_the_hub_it_goes_through(
    bench: Bench, authority: TestAuthority, kubernetes: Path, tmp_path: Path
) -> None:
    """Make before break: new requests go to the new hub while the old one's stream goes on."""
    async with (
        proxy_hub(authority) as old,
        proxy_hub(authority) as new,
        Relay(old.hub.port) as relay,
        tunnelling(bench, relay.address),
    ):
        await until_connected(old)
        before = User(kubernetes / "kubectl", old.kubeconfig(tmp_path / "old"))
        watch = await watch_under_way(before, bench.namespace)
        relay.target = new.hub.port
        old.hub.drain()
        old.proxy.tunnels.drain(60.0, "the control plane is restarting")
        await until_connected(new)
        assert not old.connected
        after = User(kubernetes / "kubectl", new.kubeconfig(tmp_path / "new"))
        await after("create", "configmap", "later", "-n", bench.namespace)
        assert await line_of(watch) == "configmap/later"
        watch.terminate()
        await watch.communicate()
        assert "later" in await after("get", "configmaps", "-n", bench.namespace)


async def test_a_tunnel_that_drains_alone_is_dialled_again(
    bench: Bench, authority: TestAuthority, kubernetes: Path, tmp_path: Path
) -> None:
    """DRAIN without a goodbye: another tunnel on the same link, and the open watch goes on."""
    async with proxy_hub(authority) as hub, tunnelling(bench, hub.hub.address):
        await until_connected(hub)
        ann = User(kubernetes / "kubectl", hub.kubeconfig(tmp_path / "ann"))
        watch = await watch_under_way(ann, bench.namespace)
        hub.proxy.tunnels.drain(60.0, "stream ids are used up")
        assert not hub.connected
        await until_connected(hub)
        await ann("create", "configmap", "later", "-n", bench.namespace)
        assert await line_of(watch) == "configmap/later"
        watch.terminate()
        await watch.communicate()
        assert len(hub.hub.hellos) == 1
