"""Hooks delete only what hooks of their own service have made."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.spec.bundle import KubeObject
from core.spec.objects import ObjectRef
from core.spec.status import Phase
from syncagent.domain.ownership import HOOK_ANNOTATION
from tests.fakes.engine import Stand, config

HOOK = {"towline.dev/hook": "pre-sync"}
CLAIM = ObjectRef("", "v1", "PersistentVolumeClaim", "prod", "data")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def claim(size: str = "1") -> KubeObject:
    """A hook that is a volume claim."""
    return config("data", size, HOOK) | {"kind": "PersistentVolumeClaim"}


async def bind(stand: Stand) -> None:
    """The claim gets its volume, which ends the hook."""
    await stand.until(lambda: CLAIM.key in stand.cluster.objects)
    stand.cluster.put(stand.cluster.objects[CLAIM.key] | {"status": {"phase": "Bound"}})
    await stand.phase(Phase.HEALTHY)


def put(stand: Stand, one: KubeObject, uid: str) -> None:
    """Somebody else makes an object."""
    one["metadata"] |= {"namespace": "prod", "uid": uid}
    stand.cluster.put(one)


async def test_a_hook_leaves_what_is_of_another_service(stand: Stand) -> None:
    """Neither its object goes nor a field of it changes; the reason names both services."""
    stand.bring([config("x", "theirs")], service="a")
    await stand.phase(Phase.HEALTHY)
    stand.bring([config("x", "ours", HOOK), config("y")], service="b")
    status = await stand.phase(Phase.FAILED)
    (problem,) = status.problems
    assert problem.reason == "Claimed" and "service a" in problem.message
    assert "service b" in problem.message
    assert stand.cluster.objects[("", "ConfigMap", "prod", "x")]["data"] == {"key": "theirs"}
    assert not stand.cluster.count("delete")


@pytest.mark.parametrize("mark", ["", "s2.1/0", "other.1/0"])
async def test_a_hook_leaves_what_no_hook_of_its_service_made(stand: Stand, mark: str) -> None:
    """An object of nobody, or that bears the run of another service."""
    put(stand, config("x", "theirs", {HOOK_ANNOTATION: mark} if mark else None), "u-1")
    stand.bring([config("x", "ours", HOOK), config("y")])
    status = await stand.phase(Phase.FAILED)
    assert status.problems[0].reason == "Claimed"
    assert not stand.cluster.count("delete")


async def test_stopping_a_sync_leaves_what_has_taken_the_place_of_its_hook(stand: Stand) -> None:
    """`terminate_sync` too asks whose an object is."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {}}
    stand.bring([job | {"metadata": {"name": "x", "annotations": HOOK}}, config("y")])
    key = ("batch", "Job", "prod", "x")
    await stand.until(lambda: key in stand.cluster.objects)
    stand.cluster.drop(key)
    put(stand, job | {"metadata": {"name": "x"}}, "u-1")
    stand.engine.terminate("c1", "s")
    await stand.until(lambda: stand.hub.answers)
    assert key in stand.cluster.objects and not stand.cluster.count("delete")


async def test_a_precious_hook_goes_by_a_persons_word_only(stand: Stand) -> None:
    """The object of the last run would have to go for this one: it waits for confirmation."""
    stand.bring([claim(), config("y")])
    await bind(stand)
    first = stand.cluster.objects[CLAIM.key]["metadata"]["uid"]
    stand.bring([claim("2"), config("y")])
    status = await stand.phase(Phase.FAILED)
    assert status.awaiting == (CLAIM,) and status.problems[0].reason == "Unconfirmed"
    assert stand.cluster.objects[CLAIM.key]["metadata"]["uid"] == first
    stand.bring([claim("2"), config("y")], confirmed=(CLAIM,))
    await stand.until(lambda: stand.cluster.objects[CLAIM.key]["metadata"]["uid"] != first)
    await bind(stand)


async def test_a_word_for_a_hook_keeps_nothing_else_back(stand: Stand) -> None:
    """Objects pruned by the same change need no confirmation and are not held back."""
    stand.bring([claim(), config("y"), config("old")])
    await bind(stand)
    first = stand.cluster.objects[CLAIM.key]["metadata"]["uid"]
    stand.bring([claim("2"), config("y")])
    assert (await stand.phase(Phase.FAILED)).awaiting == (CLAIM,)
    stand.bring([claim("2"), config("y")], confirmed=(CLAIM,))
    await stand.until(lambda: stand.cluster.objects[CLAIM.key]["metadata"]["uid"] != first)
    await bind(stand)
    assert ("", "ConfigMap", "prod", "old") not in stand.cluster.objects


async def test_objects_of_a_dropped_protected_hook_await_confirmation(stand: Stand) -> None:
    stand.bring([claim(), config("y")])
    await bind(stand)
    stand.bring([config("z", notes=HOOK), config("y")])
    status = await stand.phase(Phase.AWAITING)
    assert status.awaiting == (CLAIM,) and CLAIM.key in stand.cluster.objects
    stand.bring([config("z", notes=HOOK), config("y")], confirmed=(CLAIM,))
    await stand.phase(Phase.HEALTHY)
    assert CLAIM.key not in stand.cluster.objects


@pytest.mark.parametrize("note", ["prune", "delete"])
async def test_a_precious_hook_goes_where_it_says_so_itself(stand: Stand, note: str) -> None:
    """With signatures no confirmation counts: the annotation on the object does."""
    stand.bring([claim(), config("y")])
    await bind(stand)
    first = stand.cluster.objects[CLAIM.key]
    notes = first["metadata"]["annotations"] | {f"towline.dev/{note}": "true"}
    stand.cluster.put(first | {"metadata": first["metadata"] | {"annotations": notes}})
    stand.bring([config("z", notes=HOOK), config("y")])
    await stand.phase(Phase.HEALTHY)
    assert CLAIM.key not in stand.cluster.objects


async def test_a_hook_takes_over_nobodys_fields_where_the_service_may_not(stand: Stand) -> None:
    """`force` is the service's own option, for hooks as well."""
    stand.bring([config("x", notes=HOOK), config("y")], fail_on_conflict=True)
    await stand.phase(Phase.HEALTHY)
    assert not stand.cluster.forced


async def test_stopping_a_sync_ends_its_running_hook(stand: Stand) -> None:
    """Also after a restart it does not begin again: only another generation begins."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {}}
    objects = [job | {"metadata": {"name": "x", "annotations": HOOK}}, config("y")]
    stand.bring(objects)
    key = ("batch", "Job", "prod", "x")
    await stand.until(lambda: key in stand.cluster.objects)
    stand.engine.terminate("c1", "s")
    await stand.until(lambda: stand.hub.answers)
    assert key not in stand.cluster.objects
    status = await stand.phase(Phase.FAILED)
    assert [problem.reason for problem in status.problems] == ["Terminated"]
    await stand.restart()
    await stand.clock.advance(600)
    assert ("", "ConfigMap", "prod", "y") not in stand.cluster.objects
    assert key not in stand.cluster.objects
    stand.bring([*objects, config("z")])
    await stand.until(lambda: key in stand.cluster.objects)


async def test_stopping_a_sync_leaves_a_hook_that_holds_data(stand: Stand) -> None:
    """A volume claim is deleted only after a confirmation."""
    stand.bring([claim(), config("y")])
    await stand.until(lambda: CLAIM.key in stand.cluster.objects)
    stand.engine.terminate("c1", "s")
    await stand.until(lambda: stand.hub.answers)
    assert CLAIM.key in stand.cluster.objects and not stand.cluster.count("delete")
