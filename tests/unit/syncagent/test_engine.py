"""The engine on a cluster, a hub and a clock that are all in memory."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound, Unavailable
from core.spec.bundle import make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.status import Phase, SyncStatus
from core.spec.sync import DriftPolicy, Removal
from syncagent.domain.objects import KubeObject
from syncagent.ports import LinkDown, RequestRefused
from syncagent.reconcile.heal import heal_delay
from syncagent.state.store import SqliteStateStore
from tests.fakes.engine import Stand, config

KEY = ("", "ConfigMap", "prod", "a")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def test_without_a_link_the_old_state_is_kept_and_healed(stand: Stand) -> None:
    """A newer bundle that cannot be fetched changes nothing, and drift of the old one is healed."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.hub.down = LinkDown("no link")
    stand.want("b")
    await stand.phase(Phase.FETCHING)
    stand.cluster.drop(KEY)
    await stand.until(lambda: KEY in stand.cluster.objects)
    stand.hub.down = None
    stand.engine.linked()
    await stand.phase(Phase.HEALTHY)
    assert {key[3] for key in stand.cluster.objects} == {"b"}


async def test_a_failed_fetch_never_prunes(stand: Stand) -> None:
    """C23: an error on the way to the new state is not the new state."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    for error in (NotFound("gone"), LinkDown("away"), LinkDown("still")):
        stand.hub.down = error
        stand.want("c")
        await stand.clock.advance(30)
    assert stand.cluster.count("delete") == 0
    assert len(stand.cluster.objects) == 2


async def test_a_full_disk_is_reported_and_recovered_from(stand: Stand) -> None:
    """The bundle cannot be kept: FAILED with the reason, the last state stays, then it goes on."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    bundles = stand.folder / "bundles"
    bundles.rename(stand.folder / "away")
    bundles.write_text("in the way")
    stand.want("b")
    status = await stand.phase(Phase.FAILED)
    assert "state directory cannot be written" in status.problems[0].message
    assert KEY in stand.cluster.objects
    bundles.unlink()
    (stand.folder / "away").rename(bundles)
    await stand.phase(Phase.HEALTHY)


async def test_a_bad_object_in_the_bundle_stops_all_pruning(stand: Stand) -> None:
    """An unreadable object may be anything, also one to keep."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    bundle = make_bundle([config("a"), {"apiVersion": "v1", "kind": "ConfigMap"}])
    stand.hub.bundles[bundle.digest] = bundle.data
    stand.sequence += 1
    spec = BundleSpec("s", "prod", bundle.digest, len(bundle.data))
    stand.engine.desire(Desired("s", stand.sequence, spec))
    await stand.phase(Phase.FAILED)
    assert stand.cluster.count("delete") == 0


async def test_a_refused_object_is_tried_again_and_recovers(stand: Stand) -> None:
    """Others are applied meanwhile; the retries become rarer, then it works."""
    stand.cluster.fail["b"] = RequestRefused("not like that", status=422, reason="Invalid")
    stand.want("a", "b")
    status = await stand.phase(Phase.FAILED)
    assert [(p.reason, p.ref and p.ref.name) for p in status.problems] == [("Invalid", "b")]
    assert KEY in stand.cluster.objects
    for _ in range(300):
        await stand.clock.advance(2)
    tries = stand.cluster.calls.count(("apply", "ConfigMap prod/b"))
    assert 5 <= tries <= 60
    del stand.cluster.fail["b"]
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.calls.count(("apply", "ConfigMap prod/a")) == 1


async def test_a_fault_of_ours_with_one_object_keeps_no_other_from_being_healed(
    stand: Stand,
) -> None:
    """It is named on its object, and tried again."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    apply = stand.cluster.apply

    def named() -> bool:
        problems = [problem for said in stand.hub.statuses for problem in said.problems]
        return any("internal error" in problem.message for problem in problems)

    async def stumble(ref: ObjectRef, body: KubeObject, **options: Any) -> KubeObject:
        if ref.name == "a" and not named():
            raise RuntimeError("a fault of ours")
        return await apply(ref, body, **options)

    stand.cluster.apply = stumble
    for name in ("a", "b"):
        key = ("", "ConfigMap", "prod", name)
        stand.cluster.put(stand.cluster.objects[key] | {"data": {"key": "foreign"}})
    await stand.until(named)
    other = ("", "ConfigMap", "prod", "b")
    await stand.until(lambda: stand.cluster.objects[other]["data"] == {"key": "1"})
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})
    await stand.phase(Phase.HEALTHY)


async def test_a_status_that_cannot_be_sent_blocks_no_other_service(stand: Stand) -> None:
    """And the agent goes on."""
    take = stand.hub.status

    def stumble(status: SyncStatus) -> None:
        if status.service_id == "odd":
            raise TypeError("not a text")
        take(status)

    stand.hub.status = stumble
    stand.want("a", service="odd")
    stand.want("b", service="s")
    await stand.until(lambda: stand.last("s")[0] == Phase.HEALTHY)
    await stand.until(lambda: len(stand.cluster.objects) == 2)
    assert stand.last("odd")[0] is None


async def test_a_dead_api_server_is_named_once(stand: Stand) -> None:
    """FAILED with its words; not hammered; it goes on by itself."""
    stand.cluster.fail["ConfigMap"] = Unavailable("the API server cannot be reached")
    stand.want(*"abcdefghij")
    status = await stand.phase(Phase.FAILED)
    assert "cannot be reached" in status.problems[0].message
    for _ in range(60):
        await stand.clock.advance(1)
    assert stand.cluster.count("apply") <= 200
    del stand.cluster.fail["ConfigMap"]
    await stand.clock.advance(120)
    await stand.phase(Phase.HEALTHY)


async def test_a_cluster_out_of_reach_is_named_for_every_service(stand: Stand) -> None:
    """Each healthy service reports it once; nothing is tried meanwhile; then all is as before."""
    stand.want("a", service="old")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.out_of_reach = Unavailable("cannot reach the API server: gone")
    await stand.clock.advance(15)
    stand.want("b", service="new")
    await stand.phase(Phase.FAILED)
    touched = len(stand.cluster.calls)
    await stand.clock.advance(300)
    assert len(stand.cluster.calls) == touched
    for service in ("old", "new"):
        said = [s for s in stand.hub.statuses if s.service_id == service and s.problems]
        assert {s.problems[0].message for s in said} == {"cannot reach the API server: gone"}
        assert len(said) <= 2
    stand.cluster.out_of_reach = None
    healthy = (Phase.HEALTHY, "")
    await stand.until(lambda: stand.last("old") == stand.last("new") == healthy)
    assert stand.cluster.count("apply") == 2


async def test_a_hiccup_of_the_cluster_is_not_spoken_of(stand: Stand) -> None:
    """One question without an answer changes nothing."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    said = len(stand.hub.statuses)
    await stand.clock.advance(1.9)
    stand.cluster.out_of_reach = Unavailable("cannot reach the API server: gone")
    await stand.clock.advance(0.2)
    stand.cluster.out_of_reach = None
    await stand.clock.advance(10)
    assert len(stand.hub.statuses) == said


async def test_nothing_is_removed_before_the_owned_objects_are_known(
    tmp_path: Path,
) -> None:
    """A lost disk and a dead cluster: bundles are fetched; nothing is removed or called removed."""
    stand = Stand(tmp_path)
    await stand.start()
    stand.want("left")
    stand.want("stray", service="leaving")
    healthy = (Phase.HEALTHY, "")
    await stand.until(lambda: stand.last("s") == stand.last("leaving") == healthy)
    await stand.stop()
    shutil.rmtree(tmp_path)
    stand.hub.changes.clear()
    gone = "cannot reach the API server: gone"
    stand.cluster.out_of_reach = Unavailable(gone)
    await stand.start()
    stand.want("a")
    stand.engine.desire(Desired("leaving", 7, removal=Removal.CASCADE))
    failed = (Phase.FAILED, gone)
    await stand.until(lambda: stand.last("s") == stand.last("leaving") == failed)
    assert stand.hub.fetched == 3 and not stand.hub.changes
    await stand.stop()
    await stand.start()
    await stand.clock.advance(5)
    stand.cluster.out_of_reach = None
    await stand.until(lambda: stand.last("leaving") == (Phase.REMOVED, ""))
    await stand.until(lambda: stand.last("s") == healthy)
    assert {key[3] for key in stand.cluster.objects} == {"a"}
    await stand.stop()


async def test_after_a_lost_disk_objects_are_listed_and_not_read_one_by_one(
    tmp_path: Path,
) -> None:
    """Nobody has said yet how they should be; then they are taken over as they are."""
    stand = Stand(tmp_path)
    stand.cluster.by_metadata.add("ConfigMap")
    await stand.start()
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    await stand.stop()
    shutil.rmtree(tmp_path)
    stand.hub.statuses.clear()
    stand.cluster.calls.clear()
    await stand.start()
    await stand.clock.advance(30)
    assert stand.cluster.count("follow") == 1 and stand.cluster.count("get") == 0
    stand.want("b")
    await stand.phase(Phase.HEALTHY)
    assert {key[3] for key in stand.cluster.objects} == {"b"}
    await stand.stop()


async def test_a_kind_that_is_watched_by_its_metadata_is_read_and_healed(stand: Stand) -> None:
    """The watch tells that an object has changed, and one read tells how."""
    stand.cluster.by_metadata.add("ConfigMap")
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    reads = stand.cluster.count("get")
    stand.cluster.put(stand.cluster.objects[KEY] | {"data": {"key": "theirs"}})
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})
    assert stand.cluster.count("get") == reads + 1
    assert [(drift.paths, drift.healed) for drift in stand.hub.drifts] == [(("data.key",), True)]


async def test_a_change_of_foreign_fields_is_read_once_also_across_a_restart(stand: Stand) -> None:
    stand.cluster.by_metadata.add("ConfigMap")
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    live = stand.cluster.objects[KEY]
    labels = live["metadata"]["labels"] | {"theirs": "1"}
    stand.cluster.put(live | {"metadata": live["metadata"] | {"labels": labels}})
    await stand.until(lambda: stand.cluster.count("get"))
    await stand.restart()
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.count("get") == 1 and stand.cluster.count("apply") == 1


async def test_two_controllers_do_not_fight(stand: Stand) -> None:
    """A change that comes back at once every time is undone ever more slowly, and named."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    before = stand.cluster.count("apply")
    for _ in range(600):
        live = stand.cluster.objects[KEY]
        if live["data"]["key"] == "1":
            live["data"]["key"] = "theirs"
            stand.cluster.put(live)
        await stand.clock.advance(0.1)
    assert stand.cluster.count("apply") - before <= 15
    assert "changes it repeatedly" in stand.hub.statuses[-1].problems[0].message


async def test_pause_stops_applying_and_healing(stand: Stand) -> None:
    """While paused nothing is written; afterwards all is put right."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.want("a", paused=True)
    await stand.clock.advance(1)
    live = stand.cluster.objects[KEY]
    live["data"]["key"] = "theirs"
    stand.cluster.put(live)
    await stand.clock.advance(60)
    assert stand.cluster.objects[KEY]["data"] == {"key": "theirs"}
    stand.want("a")
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})


async def test_drift_is_reported_once_and_healed_when_the_policy_says_so(
    stand: Stand,
) -> None:
    """The same drift is one report however often the object is seen."""
    stand.want("a", drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    live = stand.cluster.objects[KEY]
    live["data"]["key"] = "theirs"
    for _ in range(3):
        stand.cluster.put(live)
        await stand.clock.advance(1)
    assert [d.paths for d in stand.hub.drifts] == [("data.key",)]
    assert stand.hub.statuses[-1].drifted == 1
    stand.want("a")
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})
    await stand.until(lambda: stand.hub.statuses[-1].drifted == 0)


@pytest.mark.parametrize(("policy", "drifted"), [(DriftPolicy.REPORT, 1), (DriftPolicy.IGNORE, 0)])
async def test_a_deleted_object_has_drifted_unless_drift_is_ignored(
    stand: Stand, policy: DriftPolicy, drifted: int
) -> None:
    stand.want("a", drift=policy)
    await stand.phase(Phase.HEALTHY)
    stand.cluster.drop(KEY)
    await stand.clock.advance(2)
    assert stand.hub.statuses[-1].drifted == drifted
    assert KEY not in stand.cluster.objects


async def test_a_report_that_the_disk_refuses_is_not_lost(stand: Stand) -> None:
    """Nothing else happens to the service, and yet it is reported in the end."""
    stand.want("a")
    take, refused = stand.hub.status, []

    def refuse(status: SyncStatus) -> None:
        refused.append(status)
        if len(refused) > 3:
            stand.hub.status = take
        raise Unavailable("the disk is full")

    stand.hub.status = refuse
    await stand.phase(Phase.HEALTHY)
    assert refused


async def test_an_answer_that_the_disk_refuses_is_given_later(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane goes on, and the command is answered once."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    kept, full = SqliteStateStore.save_answer, True

    def answer(memory: SqliteStateStore, done: CommandAnswer) -> None:
        if full:
            raise Unavailable("the disk is full")
        kept(memory, done)

    monkeypatch.setattr(SqliteStateStore, "save_answer", answer)
    stand.engine.sync_now("c", "s")
    await stand.clock.advance(20)
    assert stand.hub.answers == []
    full = False
    await stand.until(lambda: stand.hub.answers)
    await stand.clock.advance(20)
    assert stand.hub.answers == [CommandAnswer("c", CommandOutcome.SUCCEEDED)]


async def test_older_words_are_ignored(stand: Stand) -> None:
    """A late message of a lower sequence does not bring back a former state."""
    stand.want("a")
    stand.want("b")
    old = Desired("s", 1, removal=Removal.CASCADE)
    stand.engine.desire(old)
    await stand.phase(Phase.HEALTHY)
    assert stand.engine.stored_services() == [("s", 2)]


async def test_removing_what_is_not_here_is_answered(stand: Stand) -> None:
    """The hub learns that it is gone."""
    stand.engine.desire(Desired("nobody", 3, removal=Removal.CASCADE))
    assert [(s.service_id, s.phase) for s in stand.hub.statuses] == [("nobody", Phase.REMOVED)]


async def test_a_restart_applies_and_fetches_nothing(stand: Stand) -> None:
    """Stored state suffices to see that all is well."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    await stand.stop()
    stand.cluster.calls.clear()
    stand.hub.statuses.clear()
    await stand.start()
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.count("apply") == 0
    assert stand.hub.fetched == 1


async def test_a_command_is_executed_once(stand: Stand) -> None:
    """Sent again after its answer, it is answered again and not executed."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.engine.sync_now("c1", "s")
    await stand.until(lambda: stand.hub.answers)
    stand.engine.sync_now("c1", "s")
    await stand.clock.advance(5)
    assert stand.cluster.count("versions") == 1
    assert [a.outcome.value for a in stand.hub.answers] == ["succeeded", "succeeded"]


async def test_a_sync_starts_its_watches_after_the_writes(stand: Stand) -> None:
    """Before that nobody looks at what a watch tells: it would only cost."""
    stand.want("a", "b", "c")
    await stand.phase(Phase.HEALTHY)
    assert [verb for verb, _ in stand.cluster.calls] == ["apply", "apply", "apply", "follow"]


async def test_a_sync_on_request_writes_only_what_differs(stand: Stand) -> None:
    """One question for a kind; what is not in the version seen last is applied."""
    stand.want("a", "b", drift=DriftPolicy.IGNORE)
    await stand.phase(Phase.HEALTHY)
    stand.cluster.calls.clear()
    stand.engine.sync_now("c1", "s")
    await stand.until(lambda: len(stand.hub.answers) == 1)
    assert stand.cluster.calls == [("versions", "ConfigMap prod")]
    stand.cluster.put(stand.cluster.objects[KEY] | {"data": {"key": "foreign"}})
    stand.engine.sync_now("c2", "s")
    await stand.until(lambda: len(stand.hub.answers) == 2)
    assert [call for call in stand.cluster.calls if call[0] == "apply"] == [
        ("apply", "ConfigMap prod/a")
    ]
    assert stand.cluster.objects[KEY]["data"] == {"key": "1"}


async def test_kinds_that_cannot_be_listed_are_applied_on_request(stand: Stand) -> None:
    """An agent that may not list a kind still syncs it on request."""
    stand.want("a")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.calls.clear()
    apply = stand.cluster.apply
    stand.cluster.fail["ConfigMap"] = RequestRefused("may not list", status=403, reason="Forbidden")

    async def allowed(*args: Any, **options: Any) -> Any:
        stand.cluster.fail.clear()
        return await apply(*args, **options)

    stand.cluster.apply = allowed
    stand.engine.sync_now("c1", "s")
    await stand.until(lambda: stand.hub.answers)
    assert stand.hub.answers[0].outcome.value == "succeeded"
    assert stand.cluster.count("apply") == 1


async def test_the_same_bundle_again_is_no_work(stand: Stand) -> None:
    """A higher sequence without another content: acknowledged, neither read nor applied."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.calls.clear()
    stand.folder.joinpath("bundles").rename(stand.folder / "away")
    stand.want("a", "b")
    said = await stand.phase(Phase.HEALTHY)
    assert (stand.cluster.calls, said.written, said.pruned) == ([], 0, 0)
    assert said.stamps.applied and said.stamps.healthy
    stand.folder.joinpath("away").rename(stand.folder / "bundles")
    await stand.restart()
    stand.cluster.drop(KEY)
    await stand.until(lambda: KEY in stand.cluster.objects)


async def test_other_options_of_the_same_bundle_are_work(stand: Stand) -> None:
    """Drift left alone before is healed once the policy says so."""
    stand.want("a", drift=DriftPolicy.IGNORE)
    await stand.phase(Phase.HEALTHY)
    stand.cluster.put(stand.cluster.objects[KEY] | {"data": {"key": "foreign"}})
    await stand.clock.advance(1)
    stand.want("a", drift=DriftPolicy.HEAL)
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})


def test_the_pace_of_healing() -> None:
    """Five are free, then twice as long each time; a quiet minute forgets."""
    assert heal_delay((), 0.0) == 0.0
    assert heal_delay((0.0,) * 4, 1.0) == 0.0
    assert heal_delay((0.0,) * 5, 0.0) == 1.0
    assert heal_delay((0.0,) * 8, 0.0) == 8.0
    assert heal_delay((0.0, 0.0, 1.0, 2.0, 3.0), 3.5) == 0.5
    assert heal_delay((0.0,) * 8, 61.0) == 0.0


async def test_report_all_repeats_status_and_inventory(stand: Stand) -> None:
    """Status and the whole inventory of each service, with nothing written."""
    stand.want("a", "b")
    await stand.phase(Phase.HEALTHY)
    writes = stand.cluster.count("apply")
    stand.hub.statuses.clear()
    stand.hub.changes.clear()
    stand.engine.report_all()
    await stand.until(lambda: stand.hub.statuses and stand.hub.changes)
    assert stand.hub.statuses[-1].phase == Phase.HEALTHY
    (change,) = stand.hub.changes
    assert change.complete and len(change.present) == 2
    assert stand.cluster.count("apply") == writes
