"""Deletion of objects: order, confirmation and obstacles."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.spec.desired import Desired
from core.spec.objects import ObjectRef
from core.spec.status import Phase
from core.spec.sync import Removal
from syncagent.ports import RequestRefused
from syncagent.state.store import SqliteStateStore
from tests.fakes.engine import Stand, config

WAVE, DELETE = "towline.dev/wave", "towline.dev/delete"
PRUNE = "towline.dev/prune"


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def key(name: str) -> tuple[str, str, str, str]:
    return ("", "ConfigMap", "prod", name)


def remove(stand: Stand, removal: Removal, *confirmed: ObjectRef) -> None:
    stand.sequence += 1
    word = Desired("s", stand.sequence, removal=removal, confirmed=confirmed)
    stand.engine.desire(word)


def annotate(stand: Stand, name: str, note: str, text: str) -> None:
    """A person changes an annotation of a live object."""
    one = stand.cluster.objects[key(name)]
    notes = one["metadata"]["annotations"] | {note: text}
    stand.cluster.put(one | {"metadata": one["metadata"] | {"annotations": notes}})


async def test_a_removal_goes_in_reverse_order_of_the_waves(stand: Stand) -> None:
    """An object with a finalizer keeps all beneath it, and its holder is named."""
    stand.bring([config(name, notes={WAVE: str(at)}) for at, name in enumerate("abcd")])
    await stand.phase(Phase.HEALTHY)
    held = stand.cluster.objects[key("c")]
    stand.cluster.put(held | {"metadata": held["metadata"] | {"finalizers": ["shop.io/hold"]}})
    remove(stand, Removal.CASCADE)
    await stand.until(lambda: "shop.io/hold" in stand.hub.statuses[-1].message)
    await stand.clock.advance(60)
    assert set(stand.cluster.objects) == {key("a"), key("b"), key("c")}
    stand.cluster.drop(key("c"))
    await stand.phase(Phase.REMOVED)
    deleted = [name for verb, name in stand.cluster.calls if verb == "delete"]
    assert deleted == [f"ConfigMap prod/{name}" for name in "dcba"]
    assert stand.hub.statuses[-1].pruned == 4


async def test_an_object_that_cannot_be_applied_keeps_all_of_its_kind(stand: Stand) -> None:
    """In every namespace: it may be one of them under a new name."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "old"}}
    stand.bring([config("old"), secret])
    await stand.phase(Phase.HEALTHY)
    moved = config("new")
    moved["metadata"]["namespace"] = "other"
    stand.cluster.fail["new"] = RequestRefused("no such namespace", status=404, reason="NotFound")
    stand.bring([moved])
    await stand.phase(Phase.FAILED)
    assert set(stand.cluster.objects) == {key("old")}
    stand.cluster.fail.clear()
    await stand.phase(Phase.HEALTHY)
    left = {("", "ConfigMap", "other", "new")}
    assert set(stand.cluster.objects) == left
    assert {owned.key for owned in SqliteStateStore(stand.database).load_objects()} == left


async def test_a_change_of_an_object_that_awaits_its_deletion_is_no_problem(stand: Stand) -> None:
    """It is no longer in the bundle, so there is nothing to compare it with."""
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    stand.bring([config("a"), claim | {"status": {"phase": "Bound"}}])
    await stand.until(lambda: len(stand.cluster.objects) == 2)
    stand.want("a")
    await stand.phase(Phase.AWAITING)
    live = stand.cluster.objects["", "PersistentVolumeClaim", "prod", "data"]
    stand.cluster.put(live | {"spec": {"resources": {}}})
    await stand.clock.advance(30)
    assert stand.hub.statuses[-1].phase is Phase.AWAITING
    assert Phase.FAILED not in {status.phase for status in stand.hub.statuses}


async def test_a_removal_waits_for_what_a_person_must_agree_to(stand: Stand) -> None:
    """`delete: confirm` holds on cascade, also after a restart; a word on the object lets it go."""
    stand.bring([config("a"), config("kept", notes={DELETE: "confirm"})])
    await stand.phase(Phase.HEALTHY)
    remove(stand, Removal.CASCADE)
    status = await stand.phase(Phase.AWAITING)
    assert [ref.name for ref in status.awaiting] == ["kept"]
    assert set(stand.cluster.objects) == {key("kept")}
    await stand.restart()
    await stand.phase(Phase.AWAITING)
    annotate(stand, "kept", DELETE, "true")
    await stand.phase(Phase.REMOVED)
    assert not stand.cluster.objects


async def test_a_removal_takes_all_but_what_is_precious_at_one_word(stand: Stand) -> None:
    """Data waits for a second word, also after a restart; with it the service is gone."""
    claim = config("data") | {"kind": "PersistentVolumeClaim"}
    stand.bring([*(config(f"c{number}") for number in range(40)), claim])
    await stand.until(lambda: len(stand.cluster.objects) == 41)
    held = ("", "PersistentVolumeClaim", "prod", "data")
    remove(stand, Removal.CASCADE)
    status = await stand.phase(Phase.AWAITING)
    assert [ref.key for ref in status.awaiting] == [held]
    await stand.restart()
    await stand.phase(Phase.AWAITING)
    assert set(stand.cluster.objects) == {held}
    remove(stand, Removal.CASCADE, *status.awaiting)
    await stand.phase(Phase.REMOVED)
    assert not stand.cluster.objects


async def test_a_delete_annotation_confirms_a_protected_object(stand: Stand) -> None:
    """In a cluster that takes no unsigned word, people say it on the object."""
    claim = config("data", notes={DELETE: "true"}) | {"kind": "PersistentVolumeClaim"}
    stand.bring([config("a"), claim])
    await stand.until(lambda: len(stand.cluster.objects) == 2)
    remove(stand, Removal.CASCADE)
    await stand.phase(Phase.REMOVED)
    assert not stand.cluster.objects


async def test_a_prune_annotation_confirms_each_awaiting_object(stand: Stand) -> None:
    """Objects that need confirmation, and each of too many; unconfirmed ones stay."""
    many = [f"c{number}" for number in range(40)]
    stand.bring([config("a"), config("asked", notes={PRUNE: "confirm"}), *map(config, many)])
    await stand.phase(Phase.HEALTHY)
    stand.want("a")
    assert len((await stand.phase(Phase.AWAITING)).awaiting) == 41
    for name in ("asked", "c0"):
        annotate(stand, name, PRUNE, "true")
    await stand.until(lambda: len(stand.cluster.objects) == 40)
    assert not {key("asked"), key("c0")} & stand.cluster.objects.keys()
    assert len((await stand.phase(Phase.AWAITING)).awaiting) == 39


async def test_an_object_never_deleted_outlives_its_service_unlabelled(stand: Stand) -> None:
    """`delete: false` on cascade: the object stays and is nobody's."""
    stand.bring([config("a"), config("kept", notes={DELETE: "false"})])
    await stand.phase(Phase.HEALTHY)
    remove(stand, Removal.CASCADE)
    await stand.phase(Phase.REMOVED)
    assert set(stand.cluster.objects) == {key("kept")}
    assert "towline.dev/service" not in stand.cluster.objects[key("kept")]["metadata"]["labels"]


async def test_an_orphaning_removal_deletes_nothing(stand: Stand) -> None:
    """Whatever the annotations say; another service may then take the objects."""
    stand.bring([config("a"), config("kept", notes={DELETE: "confirm"})])
    await stand.phase(Phase.HEALTHY)
    remove(stand, Removal.ORPHAN)
    await stand.phase(Phase.REMOVED)
    assert set(stand.cluster.objects) == {key("a"), key("kept")}
    assert stand.cluster.count("delete") == 0
    stand.want("a", service="other")
    await stand.phase(Phase.HEALTHY)


async def test_ten_thousand_objects_are_the_most_of_a_service(stand: Stand) -> None:
    """One more is refused with the reason; what was applied before stays and is healed."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.bring_unchecked([config(f"c{number}") for number in range(10_001)])
    status = await stand.phase(Phase.FAILED)
    assert (
        status.problems[0].message
        == "the service has 10,001 objects, more than the limit of 10,000"
    )
    assert set(stand.cluster.objects) == {key("a")}
    stand.cluster.drop(key("a"))
    await stand.until(lambda: key("a") in stand.cluster.objects)


async def test_drift_reports_the_desired_and_the_foreign_value(stand: Stand) -> None:
    """Path, manager, old and new; nothing more of a Secret than that it differs."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "b"},
        "data": {"p": "b2xk"},
    }
    stand.bring([config("a"), secret])
    await stand.phase(Phase.HEALTHY)
    for where, change in (
        (key("a"), {"key": "foreign"}),
        (("", "Secret", "prod", "b"), {"p": "bmV3"}),
    ):
        one = stand.cluster.objects[where]
        managers = [{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {}}}]
        meta = one["metadata"] | {"managedFields": managers}
        stand.cluster.put(one | {"data": change, "metadata": meta})
    await stand.until(lambda: len(stand.hub.drifts) == 2)
    found = {drift.ref.kind: drift for drift in stand.hub.drifts}
    plain, hidden = found["ConfigMap"], found["Secret"]
    assert (plain.manager, plain.paths, plain.healed) == ("kubectl-edit", ("data.key",), True)
    change = plain.changes[0]
    assert (change.pointer, change.old, change.new) == ("/data/key", '"1"', '"foreign"')
    assert (hidden.changes[0].old, hidden.changes[0].new) == ('"(secret)"', '"(secret)"')
    assert "b2xk" not in repr(hidden) and "bmV3" not in repr(hidden)
