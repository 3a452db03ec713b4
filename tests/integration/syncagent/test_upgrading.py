"""The agent's replacement on a real API server: its Deployment, its controllers, its pods."""

from dataclasses import replace

import orjson
import pytest

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.spec.objects import ObjectRef
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.objects import KubeObject
from syncagent.kube.access import from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.settings import UpgradeSettings
from syncagent.upkeep.upgrade import replace_image
from tests.integration.syncagent.conftest import Bench

pytestmark = pytest.mark.cluster

OLD, NEW = "registry.example/towline:1.0", "registry.example/towline:1.1"
OUTCOME = "demo.towline.dev/outcome"


class Playing(KubeCluster):
    """The simulated nodes go by a pod's annotations, not by its image: `hangs` never starts."""

    hangs = ""

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        image = patch["spec"]["template"]["spec"]["containers"][0]["image"]
        outcome = "hang" if image == self.hangs else None
        template = patch["spec"]["template"] | {"metadata": {"annotations": {OUTCOME: outcome}}}
        await super().merge(ref, {"spec": {"template": template}})


async def install(bench: Bench) -> ObjectRef:
    """A Deployment as the chart makes it, with one pod that is ready."""
    body = bench.deployment("agent", OLD)
    body["spec"]["strategy"] = {"type": "Recreate"}
    body["spec"]["template"]["spec"]["containers"][0]["name"] = "agent"
    text = orjson.dumps(body).decode()
    (bench.state / "deployment.json").write_text(text)
    await bench.kubectl("apply", "-f", str(bench.state / "deployment.json"))
    await bench.until("deployment", "agent", is_available)
    return ObjectRef("apps", "v1", "Deployment", bench.namespace, "agent")


def is_available(live: KubeObject) -> bool:
    status = live.get("status") or {}
    return status.get("availableReplicas") == 1 and not status.get("unavailableReplicas")


def image_of(live: KubeObject) -> str:
    return live["spec"]["template"]["spec"]["containers"][0]["image"]


async def test_a_version_that_does_not_connect_is_taken_back_by_itself(bench: Bench) -> None:
    """The new pod never gets ready: the old image is back, its pod runs, and the reason is said;
    one that gets ready stays."""
    home, clock = await install(bench), SystemClock()
    client = KubeClient(from_kubeconfig(bench.cluster.kubeconfig, None, clock), clock)
    try:
        cluster = Playing(client, clock)
        cluster.hangs = NEW
        with pytest.raises(Invalid, match=f"did not connect .*agent is back at {OLD}"):
            await replace_image(cluster, home, NEW, OLD, clock, patience_s=2)
        live = await bench.until("deployment", "agent", is_available)
        assert image_of(live) == OLD
        cluster.hangs = ""
        assert "has connected" in await replace_image(cluster, home, NEW, OLD, clock, patience_s=90)
    finally:
        await client.close()
    live = await bench.until("deployment", "agent", is_available)
    assert image_of(live) == NEW


async def test_an_upgrade_that_is_asked_for_runs_as_a_job_beside_the_agent(bench: Bench) -> None:
    """A canary of the new image, then the old one; the answer is the job's. An image that is not
    listed runs nowhere."""
    home = await install(bench)
    upgrade = UpgradeSettings(home.namespace, home.name, "registry.example/towline")
    bench.settings = replace(bench.settings, upgrade=upgrade)
    hub = bench.hub
    async with bench.agent():
        await hub.until(lambda: hub.hellos)
        for command_id, image in (("good", NEW), ("evil", "evil.example/towline:1.1")):
            asked = pb.UpgradeAgent(version="1.1", image=image)
            hub.send(pb.HubMessage(command=pb.Command(id=command_id, upgrade=asked)))
        await hub.until(lambda: hub.results().keys() == {"good", "evil"}, 90)
    assert hub.results()["evil"].outcome == pb.OUTCOME_REFUSED
    assert hub.results()["good"].outcome == pb.OUTCOME_SUCCEEDED
    job = await bench.get("job", "towline-job-good")
    assert job is not None and await bench.get("job", "towline-job-evil") is None
    pod = job["spec"]["template"]["spec"]
    assert (pod["initContainers"][0]["image"], pod["containers"][0]["image"]) == (NEW, OLD)
