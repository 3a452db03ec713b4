"""Desired state becomes objects: apply, prune, refuse, remove; on a real API server."""

import asyncio
from itertools import count

from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.ownership import SERVICE_LABEL
from tests.integration.syncagent.conftest import Bench

_numbers = count(1)


def definition(group: str) -> dict:
    """A CustomResourceDefinition of kind Widget."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


async def test_a_service_is_applied_and_reported(bench: Bench) -> None:
    """Objects carry our labels and the service's namespace; the whole tree is reported."""
    hub = bench.hub
    async with bench.agent():
        hub.want("shop", [bench.config("web"), bench.deployment("web")], namespace=bench.namespace)
        status = await hub.until_phase("shop", pb.PHASE_HEALTHY)
        live = await bench.get("configmap", "web")
        components = await hub.until(
            lambda: (
                {k for k, _ in hub.components("shop")}
                >= {"ConfigMap", "Deployment", "ReplicaSet", "Pod"}
                and hub.components("shop")
            )
        )
    assert live is not None and live["metadata"]["labels"][SERVICE_LABEL] == "shop"
    assert status.written == 2 and not status.problems
    assert 0 < status.received_ms <= status.fetched_ms <= status.applied_ms <= status.healthy_ms
    by_kind = {kind: one for (kind, _), one in components.items()}
    assert by_kind["ReplicaSet"].owner_uid == by_kind["Deployment"].uid
    assert by_kind["Pod"].owner_uid == by_kind["ReplicaSet"].uid
    assert list(by_kind["Pod"].images) == ["nginx:1.25"]


async def test_the_same_again_writes_nothing(bench: Bench) -> None:
    """A new sequence with the same content leaves every resourceVersion as it was."""
    hub = bench.hub
    objects = [bench.config("one"), bench.deployment("two")]
    async with bench.agent():
        hub.want("same", objects, namespace=bench.namespace)
        await hub.until_phase("same", pb.PHASE_HEALTHY)
        before = await bench.get("configmap", "one")
        hub.want("same", objects, namespace=bench.namespace)
        status = await hub.until_phase("same", pb.PHASE_HEALTHY)
        after = await bench.get("configmap", "one")
    assert status.written == 0
    assert before == after


async def test_objects_missing_from_the_new_bundle_are_pruned(bench: Bench) -> None:
    """Only objects of the service go, and those that ask to be kept stay."""
    hub = bench.hub
    kept = bench.config("kept") | {}
    kept["metadata"]["annotations"] = {"towline.dev/prune": "false"}
    await bench.kubectl("create", "configmap", "foreign")
    async with bench.agent():
        hub.want("pruned", [bench.config("a"), bench.config("b"), kept], namespace=bench.namespace)
        await hub.until_phase("pruned", pb.PHASE_HEALTHY)
        hub.want("pruned", [bench.config("a")], namespace=bench.namespace)
        status = await hub.until_phase("pruned", pb.PHASE_HEALTHY)
        assert await bench.get("configmap", "b") is None
        for name in ("a", "kept", "foreign"):
            assert await bench.get("configmap", name) is not None
        reported = await hub.until(
            lambda: set(hub.components("pruned")) == {("ConfigMap", "a")} and status
        )
    assert reported.pruned >= 1


async def test_a_copy_of_an_object_is_not_ours(bench: Bench) -> None:
    """A copy made by hand carries our label and is neither pruned nor reported."""
    hub = bench.hub
    async with bench.agent():
        hub.want("origin", [bench.config("original")], namespace=bench.namespace)
        await hub.until_phase("origin", pb.PHASE_HEALTHY)
        await bench.kubectl("create", "configmap", "copy")
        await bench.kubectl("label", "configmap", "copy", f"{SERVICE_LABEL}=origin")
        hub.remove("origin")
        await hub.until_phase("origin", pb.PHASE_REMOVED)
        assert await bench.get("configmap", "original") is None
        assert await bench.get("configmap", "copy") is not None


async def test_definition_and_its_object_in_one_bundle(bench: Bench) -> None:
    """The object waits for its kind to be served; later the kind goes once that is confirmed."""
    hub, group = bench.hub, f"g{next(_numbers)}.example.org"
    widget = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 3},
    }
    async with bench.agent():
        hub.want("crd", [widget, definition(group)], namespace=bench.namespace)
        await hub.until_phase("crd", pb.PHASE_HEALTHY)
        assert (await bench.get(f"widgets.{group}", "w"))["spec"] == {"size": 3}
        hub.remove("crd")
        status = await hub.until_phase("crd", pb.PHASE_AWAITING)
        hub.remove("crd", confirmed=status.awaiting)
        await hub.until_phase("crd", pb.PHASE_REMOVED)


async def test_a_refused_object_fails_alone(bench: Bench) -> None:
    """The API server's error is reported, others are applied, and nothing of its kind is pruned."""
    hub = bench.hub
    bad = bench.deployment("bad")
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = 7
    unknown = {"apiVersion": "nowhere.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
    async with bench.agent():
        hub.want(
            "poison", [bench.deployment("old"), bench.config("gone")], namespace=bench.namespace
        )
        await hub.until_phase("poison", pb.PHASE_HEALTHY)
        hub.want("poison", [bad, unknown, bench.config("good")], namespace=bench.namespace)
        status = await hub.until_phase("poison", pb.PHASE_FAILED)
        assert await bench.get("configmap", "good") is not None
        assert await bench.get("configmap", "gone") is None
        assert await bench.get("deployment", "old") is not None
    problems = {p.object.name: p for p in status.problems}
    assert "image" in problems["bad"].message
    assert problems["t"].reason == "UnknownKind"
    assert set(problems) == {"bad", "t"}


async def test_an_image_pull_failure_is_reported(bench: Bench) -> None:
    """The pod's failure is the Deployment's and the service's, in words."""
    hub = bench.hub
    sick = bench.deployment("sick", **{"demo.towline.dev/outcome": "pull"})
    async with bench.agent():
        hub.want("sick", [sick], namespace=bench.namespace)
        status = await hub.until_phase("sick", pb.PHASE_DEGRADED)
    assert {p.reason for p in status.problems} & {"ImagePullBackOff", "ErrImagePull"}
    assert any(p.object.kind == "Deployment" for p in status.problems)


async def test_a_wrong_digest_is_refused(bench: Bench) -> None:
    """Bytes that are not what the digest names are never applied; the last good state stays."""
    hub = bench.hub
    async with bench.agent():
        hub.want("forged", [bench.config("good")], namespace=bench.namespace)
        await hub.until_phase("forged", pb.PHASE_HEALTHY)
        bad = hub.want("never", [bench.config("x")], namespace=bench.namespace, digest="x")
        await asyncio.sleep(0)
        forged = [bench.config("evil")]
        digest = "sha256:" + "0" * 64
        hub.bundles[digest] = bad.data
        hub.want("forged", forged, namespace=bench.namespace, digest=digest)
        status = await hub.until_phase("forged", pb.PHASE_FAILED)
        assert await bench.get("configmap", "evil") is None
        assert await bench.get("configmap", "x") is None
        assert await bench.get("configmap", "good") is not None
    assert "digest" in status.problems[0].message


async def test_namespace_is_made_on_request_and_kept(bench: Bench) -> None:
    """createNamespace makes it with its labels; it outlives the service."""
    hub, name = bench.hub, f"{bench.namespace}-made"
    options = {"create_namespace": True, "namespace_labels": {"team": "a"}}
    async with bench.agent():
        hub.want("ns", [bench.config("c")], namespace=name, options=options)
        await hub.until_phase("ns", pb.PHASE_HEALTHY)
        hub.remove("ns")
        await hub.until_phase("ns", pb.PHASE_REMOVED)
        live = await bench.get("namespace", name)
    assert live is not None and live["metadata"]["labels"]["team"] == "a"
    await bench.kubectl("delete", "namespace", name, "--wait=false")


async def test_orphaned_objects_stay_without_our_marks(bench: Bench) -> None:
    """REMOVAL_ORPHAN forgets the service and touches only labels and annotations."""
    hub = bench.hub
    async with bench.agent():
        hub.want("left", [bench.config("left")], namespace=bench.namespace)
        await hub.until_phase("left", pb.PHASE_HEALTHY)
        hub.remove("left", pb.REMOVAL_ORPHAN)
        await hub.until_phase("left", pb.PHASE_REMOVED)
        live = await bench.get("configmap", "left")
    assert live is not None and live["data"] == {"key": "value"}
    assert SERVICE_LABEL not in live["metadata"].get("labels", {})


async def test_removal_waits_for_finalizers(bench: Bench) -> None:
    """A service is removed when its last object is really gone, not when it was asked to go."""
    hub = bench.hub
    held = bench.config("held")
    held["metadata"]["finalizers"] = ["example.org/hold"]
    async with bench.agent():
        hub.want("held", [held], namespace=bench.namespace)
        await hub.until_phase("held", pb.PHASE_HEALTHY)
        hub.remove("held")
        await bench.until("configmap", "held", lambda o: o["metadata"].get("deletionTimestamp"))
        await asyncio.sleep(0.3)
        assert hub.status("held").phase != pb.PHASE_REMOVED
        nothing = '{"metadata":{"finalizers":null}}'
        await bench.kubectl("patch", "configmap", "held", "--type=merge", "-p", nothing)
        await hub.until_phase("held", pb.PHASE_REMOVED)


async def test_two_services_never_fight_over_one_object(bench: Bench) -> None:
    """The second service reports the owner and leaves the object alone."""
    hub = bench.hub
    async with bench.agent():
        hub.want("first", [bench.config("shared", of="first")], namespace=bench.namespace)
        await hub.until_phase("first", pb.PHASE_HEALTHY)
        hub.want("second", [bench.config("shared", of="second")], namespace=bench.namespace)
        status = await hub.until_phase("second", pb.PHASE_FAILED)
        hub.remove("second")
        await hub.until_phase("second", pb.PHASE_REMOVED)
        live = await bench.get("configmap", "shared")
    assert "service first" in status.problems[0].message
    assert live is not None and live["data"] == {"of": "first"}


async def test_dry_run_tells_and_changes_nothing(bench: Bench) -> None:
    """The server's verdict without a write."""
    hub = bench.hub
    bad = bench.config("Bad_Name")
    async with bench.agent():
        objects = [bench.config("dry"), bad]
        hub.want("dry", objects, namespace=bench.namespace, dry_run=True)
        status = await hub.until_phase("dry", pb.PHASE_FAILED)
        assert await bench.get("configmap", "dry") is None
    assert [p.object.name for p in status.problems] == ["Bad_Name"]
