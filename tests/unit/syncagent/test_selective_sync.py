"""Syncs of selected objects: without hooks, without the other objects, not counted as a sync."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.spec.desired import Desired
from core.spec.fences import ObjectRules, ServiceFence
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.status import Phase
from core.spec.sync import DriftPolicy, ObjectSelection, Removal
from core.wire.codec import selection_to_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.commands import Commands
from syncagent.ports import RequestRefused
from tests.fakes.engine import Stand, config

A, B = (("", "ConfigMap", "prod", name) for name in "ab")
SUCCEEDED, FAILED, REFUSED = (
    CommandOutcome.SUCCEEDED,
    CommandOutcome.FAILED,
    CommandOutcome.REFUSED,
)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def sync(stand: Stand, *names: str, prune: bool = False, id: str = "c") -> CommandAnswer:
    """Syncs ConfigMaps of the service, and returns the answer."""
    refs = tuple(ObjectRef("", "", "ConfigMap", "prod", name) for name in names)
    known = len(stand.hub.answers)
    stand.engine.sync_now(id, "s", ObjectSelection(refs, prune))
    await stand.until(lambda: len(stand.hub.answers) > known)
    return stand.hub.answers[-1]


async def drifted(stand: Stand, *keys: tuple[str, str, str, str]) -> None:
    """Others change objects; the service only reports that."""
    for key in keys:
        stand.cluster.put(stand.cluster.objects[key] | {"data": {"key": "theirs"}})
    await stand.until(lambda: len(stand.hub.drifts) >= len(keys))


def value(stand: Stand, key: tuple[str, str, str, str]) -> str:
    return stand.cluster.objects[key]["data"]["key"]


async def test_only_the_selected_object_is_applied(stand: Stand) -> None:
    stand.want("a", "b", drift=DriftPolicy.REPORT)
    healthy = await stand.phase(Phase.HEALTHY)
    await drifted(stand, A, B)
    answer = await sync(stand, "a")
    assert (answer.outcome, answer.message) == (SUCCEEDED, "")
    assert (value(stand, A), value(stand, B)) == ("1", "theirs")
    await stand.until(lambda: stand.hub.statuses[-1].drifted == 1)
    assert stand.hub.statuses[-1].stamps == healthy.stamps


async def test_a_whole_sync_still_applies_the_others(stand: Stand) -> None:
    stand.want("a", "b", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A, B)
    await sync(stand, "a")
    stand.engine.sync_now("whole", "s")
    await stand.until(lambda: value(stand, B) == "1")


async def test_a_command_is_executed_once(stand: Stand) -> None:
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    await sync(stand, "a")
    writes = stand.cluster.count("apply")
    again = await sync(stand, "a")
    assert again.outcome == SUCCEEDED and stand.cluster.count("apply") == writes


async def test_hooks_do_not_run(stand: Stand) -> None:
    hook = config("hook", notes={"towline.dev/hook": "pre-sync"})
    stand.bring([config("a"), hook])
    await stand.phase(Phase.HEALTHY)
    ran = stand.cluster.calls.count(("apply", "ConfigMap prod/hook"))
    await sync(stand, "a")
    refused = await sync(stand, "hook", id="d")
    assert stand.cluster.calls.count(("apply", "ConfigMap prod/hook")) == ran
    assert (refused.outcome, refused.message) == (
        REFUSED,
        "ConfigMap prod/hook is a hook; only a sync of the whole service runs hooks",
    )


async def test_an_object_that_git_no_longer_has_is_deleted_only_on_request(stand: Stand) -> None:
    """It stayed because another object of its kind could not be applied."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.fail["c"] = RequestRefused("not allowed", status=403, reason="Forbidden")
    stand.want("a", "c")
    await stand.phase(Phase.FAILED)
    refused = await sync(stand, "b")
    assert refused.outcome == REFUSED and "sync it with prune to delete it" in refused.message
    assert B in stand.cluster.objects
    pruned = await sync(stand, "b", prune=True, id="d")
    assert pruned.outcome == SUCCEEDED and B not in stand.cluster.objects
    assert "not allowed" in (await stand.phase(Phase.FAILED)).problems[0].message


async def test_a_deletion_keeps_the_terms_of_a_whole_sync(stand: Stand) -> None:
    """A protected object needs a confirmation; a selection is none."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {},
    }
    stand.bring([claim, config("a")])
    data = ("", "PersistentVolumeClaim", "prod", "data")
    await stand.until(lambda: data in stand.cluster.objects)
    stand.want("a")
    await stand.phase(Phase.AWAITING)
    ref = ObjectRef("", "", "PersistentVolumeClaim", "prod", "data")
    stand.engine.sync_now("c", "s", ObjectSelection((ref,), prune=True))
    await stand.until(lambda: stand.hub.answers)
    assert stand.hub.answers[-1].outcome == FAILED
    assert "needs a confirmation" in stand.hub.answers[-1].message
    assert stand.hub.statuses[-1].phase == Phase.AWAITING


async def test_a_failure_is_answered_and_changes_no_state_of_the_service(stand: Stand) -> None:
    stand.want("a", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A)
    stand.cluster.fail["a"] = RequestRefused("not allowed", status=403, reason="Forbidden")
    answer = await sync(stand, "a")
    assert (answer.outcome, answer.message) == (FAILED, "not allowed")
    assert stand.hub.statuses[-1].problems == ()


async def test_an_unknown_object_is_refused_before_any_write(stand: Stand) -> None:
    stand.want("a", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A)
    answer = await sync(stand, "a", "nowhere")
    assert (answer.outcome, answer.message) == (
        REFUSED,
        "ConfigMap prod/nowhere is no object of the service",
    )
    assert value(stand, A) == "theirs"


@pytest.mark.parametrize(
    ("option", "reason"),
    [({"paused": True}, "the service is paused"), ({"dry_run": True}, "the service is a dry run")],
)
async def test_a_service_that_writes_nothing_is_refused(
    stand: Stand, option: dict[str, Any], reason: str
) -> None:
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.want("a", **option)
    answer = await sync(stand, "a")
    assert (answer.outcome, answer.message) == (REFUSED, reason)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (ObjectRules(("prod",), (), ("ConfigMap",)), "of the kind ConfigMap are denied"),
        (ObjectRules(("other",)), "the namespace prod is not allowed (allowed: other)"),
    ],
)
async def test_an_object_outside_the_fence_is_refused_with_the_rule(
    stand: Stand, rules: ObjectRules, reason: str
) -> None:
    """The fence is that of now, also for an object that was applied before it."""
    stand.want("a", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A)
    fence = ServiceFence("shop", "", (rules,))
    stand.want("a", drift=DriftPolicy.REPORT, fence=fence)
    await stand.phase(Phase.FAILED)
    for prune in (False, True):
        answer = await sync(stand, "a", prune=prune, id=f"c{prune}")
        assert answer.outcome is REFUSED and reason in answer.message
        assert "is outside the fence of project shop" in answer.message
    assert value(stand, A) == "theirs"


async def test_an_object_inside_the_fence_is_synced(stand: Stand) -> None:
    fence = ServiceFence("shop", "", (ObjectRules(("prod",)),))
    stand.want("a", drift=DriftPolicy.REPORT, fence=fence)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A)
    assert (await sync(stand, "a")).outcome is SUCCEEDED
    assert value(stand, A) == "1"


async def test_a_service_that_never_synced_is_refused(stand: Stand) -> None:
    """Its install hooks have not run yet."""
    bundle = stand.want("a")
    stand.hub.bundles.pop(bundle.digest)
    answer = await sync(stand, "a")
    assert answer.outcome == REFUSED and "sync the whole service first" in answer.message


async def test_a_service_on_its_way_out_is_refused(stand: Stand) -> None:
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.sequence += 1
    stand.engine.desire(Desired("s", stand.sequence, removal=Removal.CASCADE))
    answer = await sync(stand, "a")
    assert answer.outcome == REFUSED


async def test_a_command_names_its_objects(stand: Stand) -> None:
    stand.want("a", "b", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A, B)
    ref = ObjectRef("", "", "ConfigMap", "prod", "b")
    message = pb.Command(id="c", sync_objects=selection_to_message("s", ObjectSelection((ref,))))
    Commands(stand.engine).take(message)
    await stand.until(lambda: stand.hub.answers)
    assert (value(stand, A), value(stand, B)) == ("theirs", "1")


async def test_an_agent_refuses_a_command_of_a_newer_control_plane(stand: Stand) -> None:
    """So an older agent never syncs the whole service instead."""
    stand.want("a", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    await drifted(stand, A)
    newer = b"\xfa\x01\x03\x0a\x01s"  # field 31, with the service
    Commands(stand.engine).take(pb.Command.FromString(b"\x0a\x01c" + newer))
    (answer,) = stand.hub.answers
    assert answer.outcome == REFUSED and "does not support the command" in answer.message
    assert value(stand, A) == "theirs"
