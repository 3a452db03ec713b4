"""Descendants: ours are tracked, others are not, and no watch outlives its need."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.spec.bundle import KubeObject
from core.spec.desired import Desired
from core.spec.objects import GroupVersionKind
from core.spec.status import Phase
from core.spec.sync import Removal
from syncagent.domain.observed.unmanaged_children import UnmanagedChildren
from syncagent.reconcile.registry import ServiceRegistry
from tests.fakes.engine import Stand, config

POD = GroupVersionKind("", "v1", "Pod")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def workload(name: str, kind: str = "Deployment") -> KubeObject:
    meta = {"name": name, "namespace": "prod"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"replicas": 0}}


def child(kind: str, name: str, owner: KubeObject) -> KubeObject:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    meta = {"name": name, "namespace": "prod", "ownerReferences": [reference]}
    version = "v1" if kind == "Pod" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {}, "status": {}}


def grow(stand: Stand, owner: KubeObject) -> None:
    """A replica set and a pod of a deployment come up."""
    name = owner["metadata"]["name"]
    replicas = stand.cluster.put(child("ReplicaSet", f"{name}-1", owner))
    stand.cluster.put(child("Pod", f"{name}-1-x", replicas))


def live(stand: Stand, name: str, kind: str = "Deployment") -> KubeObject:
    return stand.cluster.objects["apps", kind, "prod", name]


def shown(stand: Stand) -> set[str]:
    """Names of the reported pods, less those that have gone."""
    names: set[str] = set()
    for change in stand.hub.changes:
        names -= {ref.name for ref in change.gone}
        names |= {one.ref.name for one in change.present if one.ref.kind == "Pod"}
    return names


def registry(stand: Stand) -> ServiceRegistry:
    return stand.engine._registry


async def test_children_of_foreign_workloads_are_not_tracked(stand: Stand) -> None:
    """Beside ours in a namespace nothing is remembered of them but whose they are."""
    grow(stand, stand.cluster.put(workload("theirs")))
    stand.bring([workload("ours")])
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    grow(stand, live(stand, "ours"))
    grow(stand, stand.cluster.put(workload("late")))
    await stand.until(lambda: shown(stand) == {"ours-1-x"})
    assert len(registry(stand).tree) == 2
    assert len(registry(stand).unmanaged_children) == 4


async def test_an_adopted_workload_brings_its_pods_along(stand: Stand) -> None:
    """They were passed over before, and nothing changes about them any more."""
    grow(stand, stand.cluster.put(workload("theirs")))
    stand.bring([workload("ours")])
    await stand.until(lambda: len(registry(stand).unmanaged_children) == 2)
    stand.bring([workload("theirs")], service="t")
    await stand.until(lambda: shown(stand) == {"theirs-1-x"})
    assert len(registry(stand).unmanaged_children) == 0


async def test_pods_of_a_released_workload_are_forgotten(stand: Stand) -> None:
    stand.bring([workload("ours")])
    stand.bring([workload("other")], service="t")
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    for name in ("ours", "other"):
        grow(stand, live(stand, name))
    await stand.until(lambda: shown(stand) == {"ours-1-x", "other-1-x"})
    stand.sequence += 1
    stand.engine.desire(Desired("s", stand.sequence, removal=Removal.ORPHAN))
    await stand.phase(Phase.REMOVED)
    assert len(registry(stand).tree) == 2
    stand.cluster.drop(("", "Pod", "prod", "ours-1-x"))
    assert len(registry(stand).unmanaged_children) == 1


async def test_a_pod_that_its_controller_gives_up_is_no_part_any_more(stand: Stand) -> None:
    """Users change a label to debug a pod outside its controller."""
    stand.bring([workload("ours", "StatefulSet")])
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    pod = stand.cluster.put(child("Pod", "ours-0", live(stand, "ours", "StatefulSet")))
    await stand.until(lambda: shown(stand) == {"ours-0"})
    meta = {k: v for k, v in pod["metadata"].items() if k != "ownerReferences"}
    stand.cluster.put(pod | {"metadata": meta})
    await stand.until(lambda: not shown(stand))


async def test_a_pod_made_again_while_nobody_watched_is_there_once(stand: Stand) -> None:
    """A stateful set gives the new one the name of the old."""
    stand.bring([workload("ours", "StatefulSet")])
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    stand.cluster.put(child("Pod", "ours-0", live(stand, "ours", "StatefulSet")))
    await stand.until(lambda: shown(stand) == {"ours-0"})
    new = stand.cluster.swap(("", "Pod", "prod", "ours-0"))
    (kept,) = registry(stand).tree.members("Pod", "prod")
    assert kept.uid == new["metadata"]["uid"]


async def test_watches_end_with_the_last_object_of_their_kind(stand: Stand) -> None:
    """Others stay, and one that ended begins again with the next object."""
    stand.bring([config("a"), workload("ours")])
    await stand.until(lambda: {"ConfigMap", "Deployment", "Pod"} <= stand.cluster.watched())
    grow(stand, stand.cluster.put(workload("theirs")))
    stand.bring([config("a")])
    await stand.phase(Phase.HEALTHY)
    for _ in range(6):
        await stand.clock.advance(200)
    assert stand.cluster.watched() == {"ConfigMap"}
    assert len(registry(stand).unmanaged_children) == 0
    stand.bring([config("a"), workload("ours")])
    await stand.until(lambda: {"Deployment", "ReplicaSet", "Pod"} <= stand.cluster.watched())
    stand.cluster.drop(("apps", "Deployment", "prod", "ours"))
    await stand.until(lambda: ("apps", "Deployment", "prod", "ours") in stand.cluster.objects)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]))))
def test_strays_are_exactly_what_was_passed_over_last(steps: list[tuple[str, str]]) -> None:
    """Each step gives an object an owner that is not ours, or lets it go."""
    unmanaged_children, expected = UnmanagedChildren(), {}
    for name, owner in steps:
        key = ("", "Pod", "n", name)
        if owner:
            unmanaged_children.put(key, POD, owner)
            expected[name] = owner
        else:
            unmanaged_children.drop(key, POD)
            expected.pop(name, None)
        owners = {one for one in "xy" if unmanaged_children.places_of(one) == [(POD, "n")]}
        assert (len(unmanaged_children), owners) == (len(expected), set(expected.values()))
    unmanaged_children.keep_only(POD, "", ())
    assert (
        len(unmanaged_children),
        unmanaged_children.places_of("x"),
        unmanaged_children.places_of("y"),
    ) == (0, [], [])
