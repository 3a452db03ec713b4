"""A bundle that fails is taken back by its agent while the control plane is away."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.serve.conftest import Json, Running, running
from tests.integration.serve.test_cluster import agent
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository

CREATE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
HELD = """query ($id: ID!) { serviceDeployment(id: $id) { sha status errors { message }
  hold { revision reason instead liftedBy } verification { soakSeconds } } }"""
REFUSED = "{ deniedRevisions { revision actor reason } }"
HISTORY = """query ($id: ID!) { ledger(serviceId: $id, first: 50)
  { edges { node { stage } } } }"""
RULES = [
    {"kind": "ConfigMap", "state": state, "conditions": [{"pointer": "/data/n", "anyOf": [value]}]}
    for state, value in (("RUNNING", "good"), ("FAILED", "bad"))
]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials are looked at often, and what fails for a second has failed."""
    monkeypatch.setattr("syncagent.reconcile.verifier._CHECK_EVERY_S", 0.3)
    monkeypatch.setattr("syncagent.domain.verification._FAILING_MS", 1000)


@dataclass
class Place:
    """A cluster and a repository of one service, whose bundles must prove themselves."""

    cluster: LocalCluster
    namespace: str
    repository: ServedRepository

    def commit(self, value: str) -> str:
        return self.repository.commit({"shop/a.yaml": config("shop", n=value)})

    async def live(self) -> str:
        """The value that the cluster has."""
        words = ("get", "configmap", "shop", "-n", self.namespace, "--ignore-not-found")
        return await asyncio.to_thread(self.cluster.kubectl, *words, "-o", "jsonpath={.data.n}")

    async def is_live(self, value: str) -> None:
        await until(self.live, lambda seen: seen == value, 60)

    async def defined(self, hub: Running, cluster_id: str) -> str:
        """The id of the service."""
        attributes = {
            "name": "shop",
            "namespace": self.namespace,
            "repositoryId": await hub.repository(self.repository.url),
            "git": {"ref": "main", "folder": "shop"},
            "syncConfig": {"healthRules": RULES},
            "verification": {"soakSeconds": 1},
        }
        made = await hub.ask(CREATE, cluster=cluster_id, attributes=attributes)
        return made["createServiceDeployment"]["id"]


async def stages(hub: Running, id: str) -> list[str]:
    found = await hub.ask(HISTORY, id=id)
    return [edge["node"]["stage"] for edge in found["ledger"]["edges"]]


async def test_the_agent_goes_back_with_nobody_to_ask(
    quick: None, cluster: LocalCluster, namespace: str, git_server: GitServer, tmp_path: Path
) -> None:
    """Afterwards the hold is seen, and nobody is given the digest until it is lifted."""
    place = Place(cluster, namespace, git_server.create_repository("proved"))
    good, data = place.commit("good"), tmp_path / "data"
    async with AsyncExitStack() as stack:
        async with running(data) as hub:
            made, address = await hub.cluster(), hub.addresses.agents
            await stack.enter_async_context(
                agent(hub, made["deployToken"], cluster, tmp_path / "agent")
            )
            id = await place.defined(hub, made["id"])
            await until(lambda: stages(hub, id), lambda seen: "verified" in seen, 60)
            place.commit("bad")
            await place.is_live("bad")
        await place.is_live("good")
        async with running(data, listen_agents=address) as hub:

            async def shown() -> Json:
                return (await hub.ask(HELD, id=id))["serviceDeployment"]

            seen = await until(shown, lambda seen: seen["hold"], 60)
            assert seen["sha"] == good and "known to be bad" in seen["errors"][0]["message"]
            (refused,) = (await hub.ask(REFUSED))["deniedRevisions"]
            assert refused["revision"] == seen["hold"]["revision"]
            assert refused["actor"] == "agent of dev"
            assert await place.live() == "good"
