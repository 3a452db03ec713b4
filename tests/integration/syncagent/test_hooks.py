"""Hooks and waves on a real API server with real Jobs."""

import asyncio

from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench


def job(name: str, moment: str, outcome: str = "") -> dict:
    """A Job that is a hook; `outcome` is what the cluster's simulated node makes of its pod."""
    notes = {"demo.towline.dev/outcome": outcome} if outcome else {}
    spec = {
        "backoffLimit": 0,
        "template": {
            "metadata": {"annotations": notes},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "migrate:1"}],
            },
        },
    }
    meta = {"name": name, "annotations": {"argocd.argoproj.io/hook": moment}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


async def test_a_migration_runs_before_the_roll_out(bench: Bench) -> None:
    """PreSync, then waves in order, then PostSync; a second sync of the same runs nothing."""
    hub = bench.hub
    late = bench.config("late")
    late["metadata"]["annotations"] = {"towline.dev/wave": "1"}
    objects = [job("migrate", "PreSync"), bench.deployment("web"), late, job("smoke", "PostSync")]
    async with bench.agent():
        hub.want("shop", objects, namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        made = [await bench.get("job", name) for name in ("migrate", "smoke")]
        web, config = await bench.get("deployment", "web"), await bench.get("configmap", "late")
        order = [made[0], web, config, made[1]]
        times = [one["metadata"]["creationTimestamp"] for one in order if one]
        assert len(times) == 4 and times == sorted(times)
        hub.want("shop", objects, namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        again = await bench.get("job", "migrate")
        assert again is not None and made[0] is not None
        assert again["metadata"]["uid"] == made[0]["metadata"]["uid"]


async def test_a_failed_migration_keeps_everything_as_it_was(bench: Bench) -> None:
    """The reason is told, nothing is applied, the hook for failures runs."""
    hub = bench.hub
    bad, rescue = job("migrate", "PreSync", "fail"), job("rescue", "SyncFail")
    async with bench.agent():
        hub.want("shop", [bench.config("c", v="1")], namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        hub.want("shop", [bad, rescue, bench.config("c", v="2")], namespace=bench.namespace)
        status = await hub.until_phase("shop", pb.PHASE_FAILED)
        assert "migrate" in {problem.object.name for problem in status.problems}
        assert (await bench.get("configmap", "c"))["data"] == {"v": "1"}
        await bench.until("job", "rescue", lambda one: one)


async def test_hooks_around_removal_leave_nothing(bench: Bench) -> None:
    """pre-delete runs, the objects go, the hook's own object goes too."""
    hub = bench.hub
    async with bench.agent():
        objects = [job("farewell", "PreDelete"), bench.config("c")]
        hub.want("leaving", objects, namespace=bench.namespace)
        await hub.until_phase("leaving", pb.PHASE_HEALTHY)
        assert await bench.get("job", "farewell") is None
        hub.remove("leaving")
        await hub.until_phase("leaving", pb.PHASE_REMOVED)
        assert await bench.get("configmap", "c") is None
        async with asyncio.timeout(60):
            while await bench.get("job", "farewell"):
                await asyncio.sleep(0.1)
