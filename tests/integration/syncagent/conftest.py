"""An agent in this process between a fake hub and a real API server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.runtime.clock import SystemClock
from core.spec.bundle import KubeObject
from syncagent.compose import build
from syncagent.kube.access import from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.settings import HubSettings, KubernetesSettings, Settings, StateSettings
from tests.fakes.hub import TOKEN, FakeHub
from towline.demo.clusters.cluster import LocalCluster

# Read without kubectl, whose start costs more than the answer.
_PATHS = {
    "configmap": "/api/v1/namespaces/{}/configmaps",
    "deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "job": "/apis/batch/v1/namespaces/{}/jobs",
}


@dataclass
class Bench:
    """What a test works with; `kubectl` answers with parsed JSON where it is asked for JSON."""

    hub: FakeHub
    cluster: LocalCluster
    namespace: str
    state: Path
    settings: Settings
    _count: int = field(default=0)

    @asynccontextmanager
    async def agent(self) -> AsyncGenerator[None]:
        """A running agent; started again it finds the same state directory."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(build(self.settings).run(stop))
            try:
                yield
            finally:
                stop.set()

    async def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the test's namespace."""
        command = (*arguments, "--namespace", self.namespace)
        return await asyncio.to_thread(self.cluster.kubectl, *command)

    async def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """A live object, None if there is none."""
        if kind in _PATHS:
            path = f"{_PATHS[kind].format(self.namespace)}/{name}"
            return await asyncio.to_thread(self.cluster.admin.read, path)
        text = await self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return orjson.loads(text) if text.strip() else None

    async def until(self, kind: str, name: str, right: Callable[[Any], Any]) -> Any:
        """Wait until a live object (or None) is as it should be."""
        async with asyncio.timeout(60):
            while not right(live := await self.get(kind, name)):
                await asyncio.sleep(0.05)
        return live

    def config(self, name: str, **data: str) -> KubeObject:
        """A ConfigMap."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": data or {"key": "value"},
        }

    def deployment(self, name: str, image: str = "nginx:1.25", **template: str) -> KubeObject:
        """A Deployment of one pod; `template` becomes annotations of the pod."""
        labels = {"app": name}
        meta = {"labels": labels, "annotations": template}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": meta,
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": spec,
        }


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    """A hub that listens."""
    async with FakeHub() as running:
        yield running


@pytest.fixture
def bench(hub: FakeHub, cluster: LocalCluster, namespace: str, tmp_path: Path) -> Bench:
    """Everything but the agent, which a test starts itself."""
    settings = Settings(
        HubSettings(hub.address, TOKEN),
        KubernetesSettings(cluster.kubeconfig),
        StateSettings(tmp_path),
    )
    return Bench(hub, cluster, namespace, tmp_path, settings)


@pytest.fixture
async def kube(cluster: LocalCluster) -> AsyncIterator[KubeCluster]:
    """The agent's own client of the cluster."""
    clock = SystemClock()
    client = KubeClient(from_kubeconfig(cluster.kubeconfig, None, clock), clock)
    yield KubeCluster(client, clock)
    await client.close()
