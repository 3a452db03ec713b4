"""Health of a custom resource and reasons of a wait, on a real API server."""

import orjson

from core.spec.bundle import KubeObject
from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench


def definition(group: str) -> KubeObject:
    """A kind with a status subresource that keeps what its controller writes."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "Shop", "plural": "shops", "singular": "shop"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"shops.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_the_status_of_a_custom_resource_decides(bench: Bench) -> None:
    """Failed and unreadable statuses keep the service from being healthy, each with its name."""
    hub, group = bench.hub, f"{bench.namespace}.example.org"
    shop = {"apiVersion": f"{group}/v1", "kind": "Shop", "metadata": {"name": "corner"}}

    async def report(status: KubeObject) -> None:
        patch = orjson.dumps({"status": status}).decode()
        kind = f"shops.{group}/corner"
        await bench.kubectl("patch", kind, "--subresource=status", "--type=merge", "--patch", patch)

    async with bench.agent():
        hub.want("corner", [definition(group), shop, bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("corner", pb.PHASE_HEALTHY)
        await report({"phase": "SubmissionFailed", "message": "no money"})
        status = await hub.until_phase("corner", pb.PHASE_DEGRADED)
        assert "no money" in status.problems[0].message
        await report({"phase": None, "shards": 3, "message": None})
        status = await hub.until_phase("corner", pb.PHASE_APPLIED)
        assert "Shop" in status.message and "health rule" in status.message
        shown = hub.components
        await hub.until(lambda: shown("corner")["Shop", "corner"].health == pb.HEALTH_UNKNOWN)
        await report({"phase": "Ready"})
        await hub.until_phase("corner", pb.PHASE_HEALTHY)


async def test_the_object_that_waits_is_named_among_many(bench: Bench) -> None:
    """A roll-out that hangs, with its own numbers."""
    hub = bench.hub
    slow = bench.deployment("slow", **{"demo.towline.dev/outcome": "hang"})
    objects = [*(bench.config(f"c{number}") for number in range(30)), slow]
    async with bench.agent():
        hub.want("many", objects, namespace=bench.namespace)

        def is_reported() -> bool:
            said = hub.status("many")
            text = said.message if said is not None else ""
            return f"waiting for Deployment {bench.namespace}/slow: " in text

        await hub.until(is_reported, 20)
