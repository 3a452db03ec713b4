"""Objects that another tool applied, and fields that are left to others; on a real API server."""

import asyncio

import orjson

from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench


async def apply(bench: Bench, objects: list[dict], *how: str) -> None:
    """Apply by kubectl."""
    path = bench.state.parent / f"applied-{bench.namespace}.json"
    items = {"apiVersion": "v1", "kind": "List", "items": objects}
    await asyncio.to_thread(path.write_bytes, orjson.dumps(items))
    await bench.kubectl("apply", *how, "-f", str(path))


def managers(live: dict) -> set[str]:
    """Managers of fields, without the server's own controllers."""
    entries = live["metadata"].get("managedFields") or ()
    return {e["manager"] for e in entries if not e.get("subresource")}


async def live_of(bench: Bench, kind: str, name: str) -> dict:
    text = await bench.kubectl("get", kind, name, "-o", "json", "--show-managed-fields")
    return orjson.loads(text)


async def test_adoption_from_client_side_apply(bench: Bench) -> None:
    """Nothing restarts or is made anew; what kubectl alone had set goes; kubectl owns nothing."""
    hub, old = bench.hub, bench.config("c", kept="1", dropped="2")
    await apply(bench, [bench.deployment("web"), old])
    before = await bench.until("deployment", "web", lambda o: o["status"].get("readyReplicas"))
    pods = await bench.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
    async with bench.agent():
        objects = [bench.deployment("web"), bench.config("c", kept="1")]
        hub.want("adopted", objects, namespace=bench.namespace)
        status = await hub.until_phase("adopted", pb.PHASE_HEALTHY)
    after = await live_of(bench, "deployment", "web")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert pods == await bench.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
    assert "kubectl-client-side-apply" not in managers(after)
    config = await live_of(bench, "configmap", "c")
    assert config["data"] == {"kept": "1"}
    assert (
        "kubectl.kubernetes.io/last-applied-configuration"
        not in (config["metadata"]["annotations"])
    )
    assert status.message == "adopted 2 from kubectl"


async def test_adoption_from_argo_cd_and_flux(bench: Bench) -> None:
    """Their marks go with their ownership, so that they neither prune nor heal any more."""
    argo = bench.config("from-argo")
    argo["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:x/y"}
    flux = bench.config("from-flux")
    flux["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "shop"}
    await apply(bench, [argo], "--server-side", "--field-manager=argocd-controller")
    await apply(bench, [flux], "--server-side", "--field-manager=kustomize-controller")
    async with bench.agent():
        objects = [bench.config("from-argo"), bench.config("from-flux")]
        bench.hub.want("adopted", objects, namespace=bench.namespace)
        status = await bench.hub.until_phase("adopted", pb.PHASE_HEALTHY)
    assert set(status.message.removeprefix("adopted ").split(", ")) == {
        "1 from Argo CD",
        "1 from Flux",
    }
    first, second = [await live_of(bench, "configmap", f"from-{t}") for t in ("argo", "flux")]
    assert managers(first) == managers(second) == {"towline"}
    assert "argocd.argoproj.io/tracking-id" not in first["metadata"]["annotations"]
    assert "kustomize.toolkit.fluxcd.io/name" not in second["metadata"]["labels"]


async def test_ignored_pointers_are_set_once_and_then_left_to_others(bench: Bench) -> None:
    """As git says when it is made; after that another may scale, which is no drift, and a new
    bundle does not scale it back."""
    hub = bench.hub
    ignored = [pb.IgnoredDifference(kind="Deployment", pointers=["/spec/replicas"])]
    web = bench.deployment("web")
    web["spec"]["replicas"] = 2
    async with bench.agent():
        hub.want("scaled", [web], namespace=bench.namespace, options={"ignored": ignored})
        await hub.until_phase("scaled", pb.PHASE_HEALTHY)
        assert (await bench.get("deployment", "web"))["spec"]["replicas"] == 2
        await bench.kubectl("scale", "deployment", "web", "--replicas=3")
        web["spec"]["template"]["metadata"]["annotations"] = {"v": "2"}
        hub.want("scaled", [web], namespace=bench.namespace, options={"ignored": ignored})
        await hub.until_phase("scaled", pb.PHASE_HEALTHY)
        live = await bench.get("deployment", "web")
        assert live["spec"]["replicas"] == 3
        assert live["spec"]["template"]["metadata"]["annotations"]["v"] == "2"
        assert not hub.drifts("scaled")


async def test_a_rule_that_comes_later_lets_a_field_go_without_resetting_it(bench: Bench) -> None:
    """The field has no manager any more and keeps its value."""
    hub = bench.hub
    web = bench.deployment("web")
    web["spec"]["replicas"] = 2
    ignored = [pb.IgnoredDifference(pointers=["/spec/replicas"])]
    async with bench.agent():
        hub.want("freed", [web], namespace=bench.namespace)
        await hub.until_phase("freed", pb.PHASE_HEALTHY)
        hub.want("freed", [web], namespace=bench.namespace, options={"ignored": ignored})
        await hub.until_phase("freed", pb.PHASE_HEALTHY)
        assert (await bench.get("deployment", "web"))["spec"]["replicas"] == 2


async def test_fields_of_an_ignored_manager_are_left_to_it(bench: Bench) -> None:
    """Whatever it owns, and nothing else."""
    hub = bench.hub
    ignored = [pb.IgnoredDifference(managers=["tuner"])]
    async with bench.agent():
        objects = [bench.config("c", a="1", b="2")]
        hub.want("tuned", objects, namespace=bench.namespace, options={"ignored": ignored})
        await hub.until_phase("tuned", pb.PHASE_HEALTHY)
        how = ("--server-side", "--field-manager=tuner", "--force-conflicts")
        await apply(bench, [bench.config("c", a="tuned")], *how)
        hub.want(
            "tuned",
            [bench.config("c", a="1", b="3")],
            namespace=bench.namespace,
            options={"ignored": ignored},
        )
        await bench.until("configmap", "c", lambda o: o["data"] == {"a": "tuned", "b": "3"})
        await hub.until_phase("tuned", pb.PHASE_HEALTHY)


async def test_a_conflict_names_its_managers_when_force_is_off(bench: Bench) -> None:
    """And says what to do; with force the field is taken over."""
    hub = bench.hub
    await apply(bench, [bench.config("c", a="theirs")], "--server-side", "--field-manager=someone")
    async with bench.agent():
        hub.want(
            "polite",
            [bench.config("c", a="ours")],
            namespace=bench.namespace,
            options={"fail_on_conflict": True},
        )
        status = await hub.until_phase("polite", pb.PHASE_FAILED)
        assert status.problems[0].reason == "Conflict"
        assert '"someone"' in status.problems[0].message and ".data.a" in status.problems[0].message
        assert (await bench.get("configmap", "c"))["data"] == {"a": "theirs"}
        hub.want("polite", [bench.config("c", a="ours")], namespace=bench.namespace)
        await hub.until_phase("polite", pb.PHASE_HEALTHY)


async def test_an_immutable_field_is_replaced_on_request(bench: Bench) -> None:
    """By default the API server's words; with the option the Deployment is made anew."""
    hub = bench.hub
    changed = bench.deployment("web")
    changed["spec"]["selector"]["matchLabels"] = {"app": "web", "tier": "front"}
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "web", "tier": "front"}
    async with bench.agent():
        hub.want("fixed", [bench.deployment("web")], namespace=bench.namespace)
        await hub.until_phase("fixed", pb.PHASE_HEALTHY)
        before = await bench.get("deployment", "web")
        hub.want("fixed", [changed], namespace=bench.namespace)
        status = await hub.until_phase("fixed", pb.PHASE_FAILED)
        assert status.problems[0].reason == "Immutable"
        assert "field is immutable" in status.problems[0].message
        options = {"replace_immutable": True}
        hub.want("fixed", [changed], namespace=bench.namespace, options=options)
        await hub.until_phase("fixed", pb.PHASE_HEALTHY)
        after = await bench.get("deployment", "web")
    assert before is not None and after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_a_dry_run_plans_without_writing(bench: Bench) -> None:
    """The API server's own answer lists creations and changes, field by field."""
    hub = bench.hub
    async with bench.agent():
        hub.want("plan", [bench.config("c", a="1")], namespace=bench.namespace)
        await hub.until_phase("plan", pb.PHASE_HEALTHY)
        objects = [bench.config("c", a="2"), bench.config("d")]
        hub.want("plan", objects, namespace=bench.namespace, dry_run=True)
        status = await hub.until_phase("plan", pb.PHASE_APPLIED)
        assert (await bench.get("configmap", "c"))["data"] == {"a": "1"}
    planned = {one.object.name: one for one in status.planned}
    assert planned["d"].change == pb.CHANGE_CREATE
    assert [(f.pointer, f.old, f.new) for f in planned["c"].fields] == [("/data/a", '"1"', '"2"')]
    assert status.rehearsed
