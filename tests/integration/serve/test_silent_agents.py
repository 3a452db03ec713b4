"""A release reaches the last stage though a real agent is away, and that agent when it returns."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from controlplane.clusters.model.cluster import SILENT_AFTER
from controlplane.clusters.ports import ClusterStore
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_cluster import agent
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer

SAVE = """mutation ($dev: ID!, $stays: ID!, $leaves: ID!, $last: ID!) {
  savePipeline(name: "shop", attributes: {
    stages: [{name: "dev", services: [{serviceId: $dev}]}
             {name: "prod", services: [{serviceId: $stays} {serviceId: $leaves}]
              rollout: {silentDeadlineSeconds: 3}}
             {name: "last", services: [{serviceId: $last}]}]
    edges: [{from: "dev", to: "prod"}, {from: "prod", to: "last"}]}) { id } }"""
STAGES = """{ pipeline(name: "shop") { history { text } stages {
  name health reason rollout { leftOut } silent { leftOut service { cluster { handle } } } } } }"""
AUDIT = "{ auditLogs(first: 50) { edges { node { action } } } }"


async def fall_silent(hub: Running, id: str) -> None:
    """The agent of a cluster was last heard long ago, whatever arrives late of what it said."""
    async with hub.process.foundation.store.write() as tx:
        cluster = await tx[ClusterStore].get(id)
        assert cluster is not None and cluster.pinged_at is not None
        before = cluster.inserted_at - SILENT_AFTER
        await tx[ClusterStore].change(id, pinged_at=before)


async def test_a_stage_goes_on_without_an_agent_that_is_away_and_it_catches_up(
    hub: Running, cluster: LocalCluster, namespace: str, git_server: GitServer, tmp_path: Path
) -> None:
    """What it finds on its return is what was released last, though it missed a release."""
    repository = git_server.create_repository("waves")
    names = ("dev", "stays", "leaves", "last")
    repository.commit({f"{name}/a.yaml": config(name, n="1") for name in names})

    async def value(name: str) -> str:
        words = ("get", "configmap", name, "-n", namespace, "--ignore-not-found")
        return await asyncio.to_thread(cluster.kubectl, *words, "-o", "jsonpath={.data.n}")

    async def stage() -> Json:
        found = await hub.ask(STAGES)
        return found["pipeline"]["stages"][1]

    async with AsyncExitStack() as stack:
        near, far = await hub.cluster("near"), await hub.cluster("far")
        await stack.enter_async_context(agent(hub, near["deployToken"], cluster, tmp_path / "near"))
        id = await hub.repository(repository.url)
        made = {
            name: await hub.service(
                (far if name == "leaves" else near)["id"], id, name, namespace=namespace
            )
            for name in names
        }
        async with agent(hub, far["deployToken"], cluster, tmp_path / "far"):
            await hub.ask(SAVE, **made)
            await until(lambda: value("last"), lambda seen: seen == "1", 60)
            await until(stage, lambda seen: seen["health"] == "HEALTHY", 60)

        async def value_in_silence() -> str:
            await fall_silent(hub, far["id"])
            return await value("last")

        for number in ("2", "3"):
            repository.commit({f"{name}/a.yaml": config(name, n=number) for name in names})
            await until(value_in_silence, lambda seen, is_=number: seen == is_, 60)
        seen = await stage()
        assert (seen["health"], seen["rollout"]["leftOut"]) == ("HEALTHY", 1)
        assert seen["silent"] == [{"leftOut": True, "service": {"cluster": {"handle": "far"}}}]
        assert "far (last seen" in seen["reason"]
        assert await value("leaves") == "1"
        await stack.enter_async_context(
            agent(hub, far["deployToken"], cluster, tmp_path / "far-again")
        )
        await until(lambda: value("leaves"), lambda seen: seen == "3", 60)
        await until(stage, lambda seen: seen["silent"] == [] and not seen["reason"], 60)
    audited = await hub.ask(AUDIT)
    actions = [edge["node"]["action"] for edge in audited["auditLogs"]["edges"]]
    assert "leaveOutSilentClusters" in actions and "takeBackSilentClusters" in actions
