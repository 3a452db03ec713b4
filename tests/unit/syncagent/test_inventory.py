"""The ownership tree, the components, and what is reported of them."""

from functools import reduce
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.spec.health import HealthState
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.status import Phase, Problem
from core.wire.report_codec import inventory_from_message, inventory_to_message
from syncagent.domain.observed.inventory import (
    DescendantTree,
    OwnedObject,
    components_of,
    inventory_change,
    merge_inventories,
    split_inventory,
)
from syncagent.domain.observed.object_status import HealthStatus
from syncagent.domain.observed.summary import summarize


def component(
    name: str, uid: str = "", owner: str = "", kind: str = "Pod", **more
) -> ObservedComponent:
    fields: dict[str, Any] = {
        "health": HealthState.HEALTHY,
        "message": "",
        "reason": "",
        "synced": True,
        "images": (),
    }
    return ObservedComponent(
        ObjectRef("", "v1", kind, "n", name), uid or name, owner, **(fields | more)
    )


INVENTORY = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6).map(
    lambda d: {
        (c := component(name, message=str(version))).ref.key: c for name, version in d.items()
    }
)


def sent(change: InventoryChange) -> InventoryChange:
    """The change as the other side reads it."""
    return inventory_from_message(inventory_to_message(change))


def apply(known: dict, change: InventoryChange) -> dict:
    """State of the hub after a report."""
    known = {} if change.complete else dict(known)
    for ref in change.gone:
        known.pop(ref.name, None)
    return known | {c.ref.name: c.message for c in change.present}


def messages_by_name(components: dict) -> dict:
    return {c.ref.name: c.message for c in components.values()}


@given(st.lists(INVENTORY, min_size=1, max_size=8), st.integers(0, 8))
def test_differences_add_up(states, alone: int) -> None:
    """Sent one by one, and from some time on merged, the reports lead to the last state."""
    reports, before = [], None
    for state in states:
        change = inventory_change("s", before, state)
        if change is not None:
            reports.append(sent(change))
        before = state
    waiting = reports[alone:]
    if waiting:
        reports = [*reports[:alone], reduce(merge_inventories, waiting)]
    known: dict = {}
    for report in reports:
        known = apply(known, report)
    assert known == messages_by_name(states[-1])


def test_objects_that_come_and_go_while_offline_are_not_reported() -> None:
    """Pods of a cron job over days take no room; pods that the hub knows are reported as gone."""
    states = [dict([named("known")])] + [dict([named(f"pod-{turn}")]) for turn in range(500)]
    changes = [inventory_change("s", *pair) for pair in pairwise(states)]
    reports = [sent(change) for change in changes if change is not None]
    merged = reduce(merge_inventories, reports)
    assert [ref.name for ref in merged.gone] == ["known"]
    assert [one.ref.name for one in merged.present] == ["pod-499"]


def named(name: str) -> tuple[ObjectKey, ObservedComponent]:
    one = component(name)
    return one.ref.key, one


@given(INVENTORY, st.integers(1, 4))
def test_parts_say_what_the_whole_says(state, size: int) -> None:
    """Split reports lead to the same end."""
    known: dict = {"old": "1"}
    for part in split_inventory(InventoryChange("s", True, tuple(state.values()), ()), size):
        assert len(part.present) <= size
        known = apply(known, sent(part))
    assert known == messages_by_name(state)


@given(st.permutations(range(7)))
def test_the_tree_does_not_depend_on_the_order_of_arrival(order) -> None:
    """Pods may be seen before their replica sets."""
    sets = [component(f"rs{i}", owner="d", kind="ReplicaSet") for i in range(2)]
    pods = [component(f"p{i}", owner=f"rs{i % 2}") for i in range(4)]
    children = [*sets, *pods, component("stranger", owner="x")]
    tree = DescendantTree()
    for index in order:
        tree.put(children[index])
    assert {c.uid for c in tree.descendants_of("d")} == {"rs0", "rs1", "p0", "p1", "p2", "p3"}
    assert [tree.root_of(uid) for uid in ("p3", "rs0", "stranger")] == ["d", "d", "x"]
    tree.drop("rs0")
    assert {c.uid for c in tree.descendants_of("d")} == {"rs1", "p1", "p3"}


def test_owners_in_a_circle_do_no_harm() -> None:
    """Cyclic owner references end."""
    tree = DescendantTree()
    tree.put(component("a", owner="b"))
    tree.put(component("b", owner="a"))
    assert {c.uid for c in tree.descendants_of("a")} == {"b"}
    assert tree.root_of("a") in {"a", "b"}


def test_a_workload_fails_with_its_pod() -> None:
    """While it progresses, a broken pod is its failure; spent replica sets are left out."""
    ref = ObjectRef("apps", "v1", "Deployment", "n", "web")
    owned = OwnedObject(
        "s", ref, uid="d", verdict=HealthStatus(HealthState.PROGRESSING, "0 of 1"), seen=True
    )
    tree = DescendantTree()
    tree.put(component("old", owner="d", kind="ReplicaSet"))
    tree.put(component("new", owner="d", kind="ReplicaSet", health=HealthState.PROGRESSING))
    sick: dict[str, Any] = {
        "health": HealthState.FAILED,
        "message": "no image",
        "reason": "ErrImagePull",
    }
    tree.put(component("pod", owner="new", **sick))
    found = components_of({ref.key: owned}, tree)
    assert {c.ref.name for c in found.values()} == {"web", "new", "pod"}
    assert found[ref.key].health == HealthState.FAILED
    assert found[ref.key].message == "pod: no image"


def test_phases() -> None:
    """Failures of applying weigh more than sick objects, these more than waiting ones."""
    good, sick = component("a"), component("b", health=HealthState.FAILED)
    slow = component("c", health=HealthState.PROGRESSING)
    assert summarize([good], [])[0] == Phase.HEALTHY
    assert summarize([good, slow], [])[0] == Phase.APPLIED
    assert summarize([good, slow, sick], [])[0] == Phase.DEGRADED
    phase, problems = summarize([sick], [Problem("no")])
    assert phase == Phase.FAILED and len(problems) == 2
    assert (
        len(summarize([component(str(i), health=HealthState.FAILED) for i in range(300)], [])[1])
        == 100
    )
