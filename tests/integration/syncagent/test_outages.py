"""The API server away: named by the agent, which links and recovers whatever comes back first."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.wire.v1 import agent_pb2 as pb
from syncagent.settings import KubernetesSettings
from tests.integration.syncagent.conftest import Bench
from towline.demo.clusters.cluster import LocalCluster

SERVICES = [f"s{number}" for number in range(20)]


@pytest.fixture(scope="module")
def mortal(kubernetes: Path) -> Iterator[LocalCluster]:
    """A cluster whose API server may be killed."""
    with LocalCluster("mortal", kubernetes) as running:
        yield running


@pytest.fixture
def outage(bench: Bench, mortal: LocalCluster) -> Bench:
    """The bench on the mortal cluster."""
    settings = replace(bench.settings, kubernetes=KubernetesSettings(mortal.kubeconfig))
    mortal.kubectl("create", "namespace", bench.namespace)
    return replace(bench, cluster=mortal, settings=settings)


def want_all(bench: Bench) -> None:
    for name in SERVICES:
        bench.hub.want(name, [bench.config(name)], namespace=bench.namespace)


async def until_all(bench: Bench, phase: int) -> None:
    """Wait until the last word on every service is this phase."""

    def reached() -> bool:
        last = [bench.hub.status(name) for name in SERVICES]
        return all(status is not None and status.phase == phase for status in last)

    await bench.hub.until(reached, 90)


def problem_of(bench: Bench, name: str) -> str:
    status = bench.hub.status(name)
    assert status is not None
    return status.problems[0].message


async def test_first_boot_without_the_api_server(outage: Bench) -> None:
    """Linked at once, bundles fetched, the reason said of each service; applied once it is back."""
    hub = outage.hub
    hub.small = 0
    want_all(outage)
    outage.cluster.kill_apiserver()
    async with outage.agent():
        await hub.until(lambda: hub.hellos)
        await until_all(outage, pb.PHASE_FAILED)
        assert problem_of(outage, "s0").startswith("cannot reach the API server: 127.0.0.1:")
        assert len({request.digest for request in hub.fetches}) == len(SERVICES)
        await asyncio.to_thread(outage.cluster.restart_apiserver)
        await until_all(outage, pb.PHASE_HEALTHY)
        assert await outage.get("configmap", "s0") is not None


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_an_api_server_that_dies_is_named_and_recovered_from(outage: Bench, how: str) -> None:
    """Within about 10 s, on every service, once; drift of the time after is healed again."""
    hub, cluster = outage.hub, outage.cluster
    leave = cluster.kill_apiserver if how == "killed" else cluster.pause_apiserver
    come_back = cluster.restart_apiserver if how == "killed" else cluster.resume_apiserver
    async with outage.agent():
        want_all(outage)
        await until_all(outage, pb.PHASE_HEALTHY)
        await hub.until(lambda: all(hub.components(name) for name in SERVICES))
        hub.reports.clear()
        leave()
        try:
            await until_all(outage, pb.PHASE_FAILED)
        finally:
            await asyncio.to_thread(come_back)
        assert problem_of(outage, "s0").startswith("cannot reach the API server: ")
        await until_all(outage, pb.PHASE_HEALTHY)
        assert len(hub.reports) <= 3 * len(SERVICES)
        await outage.kubectl("patch", "configmap", "s0", "-p", '{"data":{"key":"edited"}}')
        await hub.until(lambda: hub.drifts("s0"), 90)


async def test_a_start_with_hub_and_api_server_down(outage: Bench) -> None:
    """Whichever comes back first, all is well in the end."""
    hub = outage.hub
    async with outage.agent():
        want_all(outage)
        await until_all(outage, pb.PHASE_HEALTHY)
    await hub.stop()
    outage.cluster.kill_apiserver()
    hub.reports.clear()
    async with outage.agent():
        await asyncio.sleep(1)
        await hub.start()
        await until_all(outage, pb.PHASE_FAILED)
        await asyncio.to_thread(outage.cluster.restart_apiserver)
        await until_all(outage, pb.PHASE_HEALTHY)
