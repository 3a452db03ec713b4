"""A sync of selected objects on a real API server."""

import json

from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench
from tests.integration.syncagent.test_hooks import job

_EDIT = json.dumps({"data": {"key": "theirs"}})


def _selected(bench: Bench, *names: str, prune: bool = False) -> pb.SyncObjects:
    refs = [pb.ObjectRef(kind="ConfigMap", namespace=bench.namespace, name=one) for one in names]
    return pb.SyncObjects(service_id="shop", objects=refs, prune=prune)


async def test_only_the_selected_objects_change_and_no_hook_runs(bench: Bench) -> None:
    hub = bench.hub
    objects = [job("migrate", "PreSync"), bench.config("a"), bench.config("b")]
    async with bench.agent():
        hub.want(
            "shop",
            objects,
            namespace=bench.namespace,
            options={"drift": pb.DRIFT_POLICY_REPORT},
        )
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        ran = await bench.get("job", "migrate")
        for name in "ab":
            await bench.kubectl("patch", "configmap", name, "--patch", _EDIT)
        command = pb.Command(id="1", sync_objects=_selected(bench, "a"))
        hub.send(pb.HubMessage(command=command))
        await hub.until(lambda: "1" in hub.results())
        assert hub.results()["1"].outcome == pb.OUTCOME_SUCCEEDED
        a, b = [await bench.get("configmap", name) for name in "ab"]
        assert a is not None and a["data"] == {"key": "value"}
        assert b is not None and b["data"] == {"key": "theirs"}
        assert await bench.get("job", "migrate") == ran


async def test_a_stranger_is_refused_and_stays(bench: Bench) -> None:
    """An object of the namespace that is not the service's is neither changed nor deleted."""
    hub = bench.hub
    async with bench.agent():
        hub.want("shop", [bench.config("a")], namespace=bench.namespace)
        await hub.until_phase("shop", pb.PHASE_HEALTHY)
        await bench.kubectl("create", "configmap", "other")
        command = pb.Command(id="1", sync_objects=_selected(bench, "other", prune=True))
        hub.send(pb.HubMessage(command=command))
        await hub.until(lambda: "1" in hub.results())
        assert hub.results()["1"].outcome == pb.OUTCOME_REFUSED
        assert await bench.get("configmap", "other") is not None
