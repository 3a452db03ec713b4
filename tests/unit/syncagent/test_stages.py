"""Syncs in stages: waves that wait for health, hooks that run once, guards on deletion."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.spec.bundle import KubeObject
from core.spec.desired import Desired
from core.spec.objects import GroupVersionKind
from core.spec.plan import PlannedAction
from core.spec.reports.commands import CommandOutcome
from core.spec.status import Phase
from core.spec.sync import Removal
from syncagent.domain.ownership import SERVICE_LABEL
from syncagent.ports import RequestRefused, UnknownApi
from tests.fakes.engine import Stand, config

JOB = ("batch", "Job", "prod", "migrate")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def job(name: str = "migrate", **notes: str) -> KubeObject:
    """A Job with annotations; `hook` and `policy` are short for ours."""
    short = {"hook": "towline.dev/hook", "policy": "towline.dev/hook-delete-policy"}
    named = {short.get(key, key): text for key, text in notes.items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": named},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "job"}]}}},
    }


def deployment(name: str, wave: str = "0") -> KubeObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        "spec": {"replicas": 1},
    }


def conclude(stand: Stand, key: tuple[str, str, str, str], condition: str = "Complete") -> None:
    """The Job ends."""
    status = {"conditions": [{"type": condition, "status": "True", "message": "as it did"}]}
    stand.cluster.put(stand.cluster.objects[key] | {"status": status})


def roll_out(stand: Stand, name: str) -> None:
    """The Deployment becomes healthy."""
    key = ("apps", "Deployment", "prod", name)
    status = {"updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}
    stand.cluster.put(stand.cluster.objects[key] | {"status": status})


def applied(stand: Stand) -> list[str]:
    """Applied objects, in order."""
    return [name.rpartition("/")[2] for verb, name in stand.cluster.calls if verb == "apply"]


def has(stand: Stand, *key: str) -> bool:
    return tuple(key) in stand.cluster.objects


async def test_a_wave_waits_until_the_one_before_is_healthy(stand: Stand) -> None:
    """Meanwhile the service says what it waits for; no turn of a walk is held."""
    stand.bring([deployment("late", "1"), deployment("early", "-1"), config("b")])
    status = await stand.phase(Phase.APPLYING)
    await stand.until(lambda: "early" in stand.hub.statuses[-1].message)
    assert applied(stand) == ["early"] and not status.problems
    roll_out(stand, "early")
    await stand.until(lambda: has(stand, "apps", "Deployment", "prod", "late"))
    assert applied(stand) == ["early", "b", "late"]
    roll_out(stand, "late")
    await stand.phase(Phase.HEALTHY)


async def test_a_sync_on_request_is_answered_when_its_last_stage_is_done(stand: Stand) -> None:
    """Meanwhile asked again, as after a lost link, it is the same sync."""
    stand.bring([job(hook="pre-sync"), config("a")])
    await stand.until(lambda: has(stand, *JOB))
    stand.engine.sync_now("c", "s")
    await stand.until(lambda: stand.cluster.count("get") > 2)
    stand.engine.sync_now("c", "s")
    await stand.clock.advance(30)
    assert stand.hub.answers == []
    conclude(stand, JOB, "Failed")
    await stand.until(lambda: stand.hub.answers)
    await stand.clock.advance(30)
    (answer,) = stand.hub.answers
    assert answer.outcome == CommandOutcome.FAILED and "as it did" in answer.message
    assert applied(stand) == ["migrate"]


async def test_a_wave_that_takes_too_long_fails_with_the_reason_and_goes_on_later(
    stand: Stand,
) -> None:
    """Nothing after it is applied until it is healthy, then all is."""
    stand.bring([deployment("early"), deployment("late", "1")], wave_timeout_s=30)
    status = await stand.phase(Phase.FAILED)
    assert "wave 0 timed out" in status.problems[0].message
    assert "Deployment prod/early" in status.problems[0].message
    assert applied(stand) == ["early"]
    roll_out(stand, "early")
    await stand.until(lambda: "late" in applied(stand))


async def test_time_that_a_wave_has_waited_counts_across_a_restart(stand: Stand) -> None:
    """An agent that is restarted often does not wait for ever."""
    stand.bring([deployment("early"), deployment("late", "1")], wave_timeout_s=60)
    await stand.phase(Phase.APPLYING)
    for _ in range(40):
        await stand.clock.advance(1)
    await stand.restart()
    for _ in range(25):
        await stand.clock.advance(1)
    await stand.phase(Phase.FAILED)


async def test_a_newer_word_ends_the_waiting(stand: Stand) -> None:
    """A hung roll-out does not keep the fix from being applied."""
    stand.bring([deployment("early"), deployment("late", "1")])
    await stand.phase(Phase.APPLYING)
    stand.want("a")
    await stand.phase(Phase.HEALTHY)


async def test_a_hook_is_followed_where_its_kind_is_not_listed_in_all_namespaces(
    stand: Stand,
) -> None:
    """At once, and all along: what nobody needs is tidied up meanwhile."""
    stand.cluster.hidden.add("Job")
    stand.bring([job(hook="pre-sync"), config("a")], wave_timeout_s=10_000)
    await stand.until(lambda: has(stand, *JOB))
    for _ in range(120):
        await stand.clock.advance(10)
    followed = [place for verb, place in stand.cluster.calls if verb == "follow" and "Job" in place]
    assert followed == ["Job ", "Job prod"]
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)


async def test_hooks_run_before_and_after_each_once(stand: Stand) -> None:
    """pre-sync, then the objects, then post-sync once all is healthy; once in a sequence."""
    after = job("after", **{"argocd.argoproj.io/hook": "PostSync"})
    stand.bring([job(hook="pre-sync"), deployment("web"), after])
    await stand.until(lambda: has(stand, *JOB))
    assert applied(stand) == ["migrate"]
    conclude(stand, JOB)
    await stand.until(lambda: "web" in applied(stand))
    assert not has(stand, "batch", "Job", "prod", "after")
    roll_out(stand, "web")
    await stand.until(lambda: has(stand, "batch", "Job", "prod", "after"))
    conclude(stand, ("batch", "Job", "prod", "after"))
    await stand.phase(Phase.HEALTHY)
    await stand.restart()
    stand.bring([job(hook="pre-sync"), deployment("web"), after], drift="report")
    await stand.phase(Phase.HEALTHY)
    assert applied(stand).count("migrate") == 1 and applied(stand).count("after") == 1


async def test_a_hook_is_not_run_twice_by_a_restart(stand: Stand) -> None:
    """While it runs, and after it ended while the agent was away."""
    stand.bring([job(hook="pre-sync"), config("a")])
    await stand.until(lambda: has(stand, *JOB))
    await stand.restart()
    for _ in range(20):
        await stand.clock.advance(1)
    assert applied(stand).count("migrate") == 1
    await stand.stop()
    conclude(stand, JOB)
    await stand.start()
    await stand.phase(Phase.HEALTHY)
    assert applied(stand) == ["migrate", "a"]


async def test_a_hook_that_vanished_while_nobody_looked_is_not_run_again(stand: Stand) -> None:
    """Whether it has done its work is not known: a person must say."""
    stand.bring([job(hook="pre-sync"), config("a")])
    await stand.until(lambda: has(stand, *JOB))
    await stand.stop()
    stand.cluster.drop(JOB)
    await stand.start()
    status = await stand.phase(Phase.FAILED)
    assert "before its end was observed" in status.problems[0].message
    assert applied(stand) == ["migrate"]


async def test_a_new_revision_without_changes_repeats_a_failed_hook(stand: Stand) -> None:
    """All objects are as they should be, but the sync before it has failed."""
    objects = [job(hook="post-sync"), config("a")]
    stand.bring(objects)
    await stand.until(lambda: has(stand, *JOB))
    conclude(stand, JOB, "Failed")
    await stand.phase(Phase.FAILED)
    stand.bring(objects)
    await stand.until(lambda: applied(stand).count("migrate") == 2)
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)
    assert applied(stand).count("a") == 1


async def test_a_new_bundle_runs_its_hooks_anew(stand: Stand) -> None:
    """The object of the former run is deleted first."""
    stand.bring([job(hook="pre-sync"), config("a")])
    await stand.until(lambda: has(stand, *JOB))
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)
    stand.bring([job(hook="pre-sync"), config("b")])
    await stand.until(lambda: applied(stand).count("migrate") == 2)
    assert "status" not in stand.cluster.objects[JOB]
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)
    assert not has(stand, "", "ConfigMap", "prod", "a")


async def test_a_failed_hook_stops_the_sync_and_runs_those_for_failure(stand: Stand) -> None:
    """Nothing is applied; its log is reported; a sync on request lets it try again."""
    rescue = job("rescue", hook="sync-fail")
    stand.bring([job(hook="pre-sync"), config("a"), rescue])
    await stand.until(lambda: has(stand, *JOB))
    conclude(stand, JOB, "Failed")
    await stand.until(lambda: has(stand, "batch", "Job", "prod", "rescue"))
    conclude(stand, ("batch", "Job", "prod", "rescue"))
    status = await stand.phase(Phase.FAILED)
    for _ in range(60):
        await stand.clock.advance(5)
    assert [p.reason for p in status.problems] == ["HookFailed"]
    assert "as it did" in status.problems[0].message
    assert applied(stand) == ["migrate", "rescue"]
    stand.engine.sync_now("c1", "s")
    await stand.until(lambda: applied(stand).count("migrate") == 2)
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)


async def test_delete_policies_and_helms_words(stand: Stand) -> None:
    """A succeeded hook goes when it says so; install hooks run at the first sync only."""
    tidy = job(hook="pre-sync", policy="hook-succeeded")
    install = job("seed", **{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "-5"})
    tested = job("tested", **{"helm.sh/hook": "test"})
    stand.bring([tidy, install, tested, config("a")])
    seed = ("batch", "Job", "prod", "seed")
    await stand.until(lambda: has(stand, *seed))
    assert not has(stand, *JOB)
    conclude(stand, seed)
    await stand.until(lambda: has(stand, *JOB))
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)
    assert not has(stand, *JOB)
    stand.bring([tidy, install, tested, config("b")])
    await stand.until(lambda: has(stand, *JOB))
    conclude(stand, JOB)
    await stand.phase(Phase.HEALTHY)
    assert applied(stand).count("seed") == 1 and "tested" not in applied(stand)


async def test_hooks_around_a_removal(stand: Stand) -> None:
    """pre-delete, then the objects, then post-delete; then nothing is left of the hooks either."""
    last = job("last", **{"argocd.argoproj.io/hook": "PostDelete"})
    stand.bring([job(hook="pre-delete"), config("a"), last])
    await stand.phase(Phase.HEALTHY)
    stand.sequence += 1
    stand.engine.desire(Desired("s", stand.sequence, removal=Removal.CASCADE))
    await stand.until(lambda: has(stand, *JOB))
    assert has(stand, "", "ConfigMap", "prod", "a")
    conclude(stand, JOB)
    await stand.until(lambda: has(stand, "batch", "Job", "prod", "last"))
    assert not has(stand, "", "ConfigMap", "prod", "a")
    conclude(stand, ("batch", "Job", "prod", "last"))
    await stand.phase(Phase.REMOVED)
    assert not stand.cluster.objects


async def test_terminate_ends_hooks_and_stays_ended(stand: Stand) -> None:
    """Also after a restart; the next change starts anew."""
    stand.bring([job(hook="pre-sync"), config("a")])
    await stand.until(lambda: has(stand, *JOB))
    stand.engine.terminate("c1", "s")
    stand.engine.terminate("c1", "s")
    status = await stand.phase(Phase.FAILED)
    assert [one.command_id for one in stand.hub.answers] == ["c1"]
    await stand.until(lambda: not has(stand, *JOB))
    assert status.problems[0].reason == "Terminated"
    await stand.restart()
    await stand.clock.advance(30)
    assert applied(stand) == ["migrate"]
    stand.want("a")
    await stand.phase(Phase.HEALTHY)


@pytest.mark.parametrize(
    "poison",
    [
        config("a", notes={"towline.dev/hook": "sometime"}),
        config("a", notes={"towline.dev/wave": "first"}),
        config("Not_A_Name"),
        ["no object"],
        config("a") | {"metadata": {"name": "a", "labels": {"x": 1}}},
        config("a", "x" * 1_600_000),
        config("a") | {"kind": "Secret", "data": {"pin": 48151623}},
        config("a") | {"kind": "Secret", "stringData": "48151623"},
        config("a") | {"metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "good", "uid": "u"}]}},
    ],
)  # fmt: skip
async def test_a_poisoned_bundle_is_refused_as_a_whole(stand: Stand, poison: KubeObject) -> None:
    """Nothing of it is applied; what was applied before stays and is healed."""
    stand.want("old")
    await stand.phase(Phase.HEALTHY)
    circle = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
    good = config("good")
    good["metadata"]["ownerReferences"] = [circle]
    lines = [good, poison]
    stand.bring_unchecked(lines)
    status = await stand.phase(Phase.FAILED)
    assert status.problems[0].reason == "Invalid" and "48151623" not in repr(status)
    assert [key[3] for key in stand.cluster.objects] == ["old"]
    stand.cluster.drop(("", "ConfigMap", "prod", "old"))
    await stand.until(lambda: has(stand, "", "ConfigMap", "prod", "old"))


async def test_too_many_deletions_wait_for_a_person(stand: Stand) -> None:
    """A budget of 30 %, at least 10; still waited for after a restart; a word lets them go."""
    names = [f"c{number}" for number in range(40)]
    stand.want(*names)
    await stand.phase(Phase.HEALTHY)
    stand.want("c0")
    status = await stand.phase(Phase.AWAITING)
    assert len(status.awaiting) == 39 and stand.cluster.count("delete") == 0
    await stand.restart()
    status = await stand.phase(Phase.AWAITING)
    stand.want("c0", confirmed=status.awaiting)
    await stand.phase(Phase.HEALTHY)
    assert len(stand.cluster.objects) == 1


async def test_confirming_some_deletions_keeps_the_others(stand: Stand) -> None:
    """Few enough to need no word by themselves they still wait: a person has left them out."""
    stand.want(*(f"c{number}" for number in range(40)))
    await stand.phase(Phase.HEALTHY)
    stand.want("c0")
    asked = (await stand.phase(Phase.AWAITING)).awaiting
    stand.want("c0", confirmed=asked[:35])
    status = await stand.phase(Phase.AWAITING)
    assert set(status.awaiting) == set(asked[35:])
    assert {key[3] for key in stand.cluster.objects} == {"c0", *(ref.name for ref in asked[35:])}
    await stand.restart()
    assert len((await stand.phase(Phase.AWAITING)).awaiting) == 4
    stand.want("c0", confirmed=asked[35:])
    await stand.phase(Phase.HEALTHY)
    assert len(stand.cluster.objects) == 1


async def test_a_larger_budget_is_a_matter_of_the_service(stand: Stand) -> None:
    """deletion_budget allows what the default does not."""
    stand.want(*(f"c{number}" for number in range(20)))
    await stand.phase(Phase.HEALTHY)
    stand.want("c0", deletion_budget=19)
    await stand.phase(Phase.HEALTHY)


async def test_precious_kinds_wait_and_others_go(stand: Stand) -> None:
    """A claim holds data: it stays until a person agrees, whatever else is pruned."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "status": {"phase": "Bound"},
    }
    asked = config("asked", notes={"argocd.argoproj.io/sync-options": "Prune=confirm"})
    stand.bring([claim, asked, config("a"), config("b")])
    await stand.until(lambda: stand.cluster.count("apply") == 4)
    stand.want("a")
    status = await stand.phase(Phase.AWAITING)
    assert {ref.name for ref in status.awaiting} == {"data", "asked"}
    assert not has(stand, "", "ConfigMap", "prod", "b")


async def test_an_immutable_field_is_an_error_unless_replacing_is_allowed(stand: Stand) -> None:
    """The API server's words with what to do; by annotation the object is made anew."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    uid = stand.cluster.objects["", "ConfigMap", "prod", "a"]["metadata"]["uid"]
    stand.cluster.fixed.add("a")
    stand.bring([config("a", "2")])
    status = await stand.phase(Phase.FAILED)
    assert status.problems[0].reason == "Immutable"
    assert "towline.dev/replace" in status.problems[0].message
    stand.bring([config("a", "2", notes={"towline.dev/replace": "true"})])
    await stand.phase(Phase.HEALTHY)
    live = stand.cluster.objects["", "ConfigMap", "prod", "a"]
    assert live["data"] == {"key": "2"} and live["metadata"]["uid"] != uid


async def test_a_dry_run_tells_what_it_would_do(stand: Stand) -> None:
    """Create, update with the fields, delete; nothing is written and nothing adopted."""
    stand.want("same", "gone", "new")
    await stand.phase(Phase.HEALTHY)
    applies = len(stand.cluster.objects)
    stand.bring([config("same"), config("new", "2"), config("more")], dry_run=True)
    status = await stand.phase(Phase.APPLIED)
    planned = {one.object.name: one for one in status.planned or ()}
    assert {name: one.change for name, one in planned.items()} == {
        "new": PlannedAction.UPDATE,
        "more": PlannedAction.CREATE,
        "gone": PlannedAction.DELETE,
    }
    assert [(f.pointer, f.old, f.new) for f in planned["new"].fields] == [
        ("/data/key", '"1"', '"2"')
    ]
    assert len(stand.cluster.objects) == applies


async def test_a_dry_run_that_finds_no_difference_says_so(stand: Stand) -> None:
    """Once it has come to its end, not before; nothing but a dry run has a plan."""
    stand.want("same")
    assert (await stand.phase(Phase.HEALTHY)).planned is None
    stand.bring([config("same")], dry_run=True)
    await stand.until(lambda: stand.hub.statuses[-1].planned == ())
    assert stand.hub.statuses[-1].phase is Phase.APPLIED
    sequence = stand.hub.statuses[-1].sequence
    plans = [one.planned for one in stand.hub.statuses if one.sequence < sequence]
    assert set(plans) == {None}


async def test_two_services_that_want_one_object_are_both_named(stand: Stand) -> None:
    """The second leaves it alone, whatever it asks for."""
    stand.want("a", service="first")
    await stand.until(lambda: stand.last("first") == (Phase.HEALTHY, ""))
    stand.bring([config("a", "mine")], service="second")
    await stand.until(lambda: stand.last("second")[0] == Phase.FAILED)
    said = stand.last("second")[1]
    assert "belongs to service first" in said and "service second does not touch it" in said
    assert stand.cluster.objects["", "ConfigMap", "prod", "a"]["data"] == {"key": "1"}


@pytest.mark.parametrize("goes", [True, False])
async def test_an_object_that_another_service_awaits_is_handed_over(
    stand: Stand, goes: bool
) -> None:
    """A commit, or a removal, that moves an object from one service to another deletes nothing."""
    stand.want("a", "b", service="first")
    await stand.until(lambda: stand.last("first") == (Phase.HEALTHY, ""))
    key = ("", "ConfigMap", "prod", "a")
    uid = stand.cluster.objects[key]["metadata"]["uid"]
    stand.bring([config("a", "mine")], service="second")
    await stand.until(lambda: stand.last("second")[0] == Phase.FAILED)
    if goes:
        stand.sequence += 1
        removal = Desired("first", stand.sequence, removal=Removal.CASCADE)
        stand.engine.desire(removal)
    else:
        stand.want("b", service="first")
    await stand.until(lambda: stand.last("second") == (Phase.HEALTHY, ""))
    live = stand.cluster.objects[key]
    assert live["metadata"]["uid"] == uid and live["data"] == {"key": "mine"}
    await stand.until(lambda: has(stand, "", "ConfigMap", "prod", "b") is not goes)
    assert ("delete", "ConfigMap prod/a") not in stand.cluster.calls
    stand.cluster.drop(key)
    await stand.until(lambda: has(stand, *key))


@pytest.mark.parametrize("still", [True, False])
async def test_an_object_that_neither_service_wants_is_deleted(stand: Stand, still: bool) -> None:
    """Objects that two services give up with one commit go; wanted ones stay."""
    stand.want("a", "b", service="first")
    await stand.until(lambda: stand.last("first") == (Phase.HEALTHY, ""))
    stand.bring([config("a")], service="second")
    await stand.until(lambda: stand.last("second")[0] == Phase.FAILED)
    stand.want("b", service="first")
    late = stand.want("c", *(["a"] if still else []), service="second")
    del stand.hub.bundles[late.digest]
    await stand.clock.advance(30)
    assert has(stand, "", "ConfigMap", "prod", "a")
    stand.hub.bundles[late.digest] = late.data
    for service in ("first", "second"):
        await stand.until(lambda name=service: stand.last(name) == (Phase.HEALTHY, ""))
    await stand.clock.advance(60)
    assert has(stand, "", "ConfigMap", "prod", "a") is still
    assert (("delete", "ConfigMap prod/a") in stand.cluster.calls) is not still


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_paused_service_gets_what_it_waits_for_later(stand: Stand, restarts: bool) -> None:
    """Its holder goes with all it has: that one object stays, and is nobody's until then."""
    stand.want("a", "b", service="first")
    await stand.until(lambda: stand.last("first") == (Phase.HEALTHY, ""))
    stand.bring([config("a", "mine")], service="second")
    await stand.until(lambda: stand.last("second")[0] == Phase.FAILED)
    stand.bring([config("a", "mine")], service="second", paused=True)
    stand.sequence += 1
    stand.engine.desire(Desired("first", stand.sequence, removal=Removal.CASCADE))
    await stand.until(lambda: stand.last("first")[0] == Phase.REMOVED)
    key = ("", "ConfigMap", "prod", "a")
    uid = stand.cluster.objects[key]["metadata"]["uid"]
    assert not has(stand, "", "ConfigMap", "prod", "b")
    if restarts:
        await stand.restart()
    await stand.clock.advance(60)
    live = stand.cluster.objects[key]
    assert live["data"] == {"key": "1"} and SERVICE_LABEL not in live["metadata"]["labels"]
    stand.bring([config("a", "mine")], service="second")
    await stand.until(lambda: stand.last("second") == (Phase.HEALTHY, ""))
    live = stand.cluster.objects[key]
    assert (live["metadata"]["uid"], live["data"]) == (uid, {"key": "mine"})


async def test_a_service_that_goes_too_inherits_nothing(stand: Stand) -> None:
    stand.want("a", service="first")
    await stand.until(lambda: stand.last("first") == (Phase.HEALTHY, ""))
    stand.bring([config("a"), config("c")], service="second")
    await stand.until(lambda: stand.last("second")[0] == Phase.FAILED)
    for service in ("first", "second"):
        stand.sequence += 1
        stand.engine.desire(Desired(service, stand.sequence, removal=Removal.CASCADE))
    await stand.until(lambda: not has(stand, "", "ConfigMap", "prod", "a"))


async def test_a_kind_that_is_never_served_is_waited_for_once(stand: Stand) -> None:
    """Not anew for each few of its many objects; once it is served all of them are applied."""
    widget = {"apiVersion": "shop.io/v1", "kind": "Widget"}
    definition: KubeObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.io"},
        "spec": {"group": "shop.io", "names": {"kind": "Widget"}, "scope": "Namespaced"},
    }
    stand.cluster.fail["Widget"] = UnknownApi(GroupVersionKind("shop.io", "v1", "Widget"))
    names = [f"w{number}" for number in range(100)]
    stand.bring([definition, *(widget | {"metadata": {"name": name}} for name in names)])
    status = await stand.phase(Phase.FAILED)
    assert len(status.problems) == 100 and stand.clock.monotonic() < 45
    del stand.cluster.fail["Widget"]
    await stand.until(lambda: all(has(stand, "shop.io", "Widget", "prod", n) for n in names))


async def test_a_refused_wave_keeps_the_next_back(stand: Stand) -> None:
    """An object that is refused is a wave that is not well."""
    stand.cluster.fail["a"] = RequestRefused("no", status=403, reason="Forbidden")
    stand.bring([config("a"), config("b", notes={"towline.dev/wave": "5"})])
    await stand.phase(Phase.FAILED)
    assert "b" not in applied(stand)
    del stand.cluster.fail["a"]
    await stand.phase(Phase.HEALTHY)


async def test_prune_last_waits_for_the_other_objects(stand: Stand) -> None:
    """Argo CD's PruneLast: the old one stays while the new one is not well."""
    old: dict[str, Any] = config("old", notes={"argocd.argoproj.io/sync-options": "PruneLast=true"})
    stand.bring([old])
    await stand.phase(Phase.HEALTHY)
    stand.bring([deployment("web")])
    await stand.until(lambda: "web" in applied(stand))
    await stand.clock.advance(20)
    assert has(stand, "", "ConfigMap", "prod", "old")
    roll_out(stand, "web")
    await stand.until(lambda: not has(stand, "", "ConfigMap", "prod", "old"))


@pytest.mark.parametrize(
    ("status", "reason"),
    [({"phase": "Failed"}, "Failed"), ({"shards": 3}, "add a health rule")],
)
async def test_a_custom_resource_that_failed_or_cannot_tell_opens_no_wave(
    stand: Stand, status: dict[str, Any], reason: str
) -> None:
    """The next wave is not applied, and the service is not healthy, before a rule or a repair."""
    shop = {"apiVersion": "shop.io/v1", "kind": "Shop", "metadata": {"name": "shop"}}
    late = config("late", notes={"towline.dev/wave": "1"})
    stand.cluster.put({**shop, "metadata": {"name": "shop", "namespace": "prod"}, "status": status})
    stand.bring([shop, late], wave_timeout_s=30)
    found = await stand.phase(Phase.FAILED)
    assert applied(stand) == ["shop"] and reason in repr(found.problems)
    key = ("shop.io", "Shop", "prod", "shop")
    stand.cluster.put(stand.cluster.objects[key] | {"status": {"phase": "Ready"}})
    await stand.phase(Phase.HEALTHY)
