"""Stages with silent clusters: waited for until the deadline, then left out until they catch up."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.pipelines.engine.effects import Notify, Promote, Topic, WakeAt
from controlplane.pipelines.engine.events import (
    Budgeted,
    ClustersSilent,
    Retried,
    ServicesHealth,
)
from controlplane.pipelines.model.pipeline import Pipeline, StageId, Verification, validate
from controlplane.pipelines.model.rollout import (
    BudgetRoom,
    Progress,
    Rollout,
    StageMember,
    Strategy,
    plan_waves,
)
from controlplane.pipelines.model.state import Health, ReleaseId, StageState
from core.errors import Invalid
from core.identity import ServiceId
from tests.fakes.pipelines import START, Line, make_pipeline, two_stages

PROD = StageId("prod")
DEADLINE = 1_800


def rolled(rollout: Rollout, count: int = 4) -> Pipeline:
    """dev → prod without gates, prod with so many services, each in a cluster of its own."""
    pipeline = make_pipeline({"dev prod": []}, services=count)
    members = [StageMember(ServiceId(f"prod-{n}"), f"c{n}") for n in range(count)]
    prod = replace(pipeline.stage[PROD], rollout=rollout, waves=plan_waves(rollout, members))
    return validate(replace(pipeline, stages=(pipeline.first, prod)))


class Fleet:
    """A release that has entered prod, in clusters of which some are silent or not well."""

    def __init__(self, pipeline: Pipeline, silent: set[str] | None = None) -> None:
        self.line = Line(pipeline)
        self.silent = silent or set()
        self.progressing: set[str] = set()
        self.failed: set[str] = set()
        self.enter("c1")

    def enter(self, content: str) -> ReleaseId:
        release = self.line.observe(content)
        self.line.render("prod", release)
        return release

    def report(self, after: float = 0) -> StageState:
        """The control plane looks at prod after so many seconds; the stage after it."""
        self.line.now += timedelta(seconds=after)
        given = self.prod.progress
        silent = {service: named(service) for service in given if service in self.silent}
        self.line.send(ClustersSilent(silent))
        healths = {service: self.health(service) for service in given}
        reasons = {service: "crash loop" for service in given if service in self.failed}
        self.line.send(ServicesHealth(PROD, self.prod.release or ReleaseId(""), healths, reasons))
        return self.prod

    def health(self, service: ServiceId) -> Health:
        if service in self.failed:
            return Health.FAILED
        unsettled = service in self.silent | self.progressing
        return Health.PROGRESSING if unsettled else Health.HEALTHY

    @property
    def prod(self) -> StageState:
        return self.line.stage("prod")

    def topics(self) -> list[Topic]:
        return [effect.topic for effect in self.line.effects if isinstance(effect, Notify)]

    def history(self) -> list[str]:
        return [entry.text for entry in self.line.state.history]


def named(service: str) -> str:
    return f"{service.replace('prod-', 'c')} (last seen at noon)"


def test_a_stage_waits_for_a_silent_cluster_until_the_deadline_and_names_it() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    prod = fleet.report(DEADLINE - 1)
    assert prod.health is Health.PROGRESSING
    assert prod.reason == (
        "waits for silent clusters until 2026-01-01 00:30:00 UTC: c2 (last seen at noon)"
    )
    assert WakeAt("wake/2026-01-01T00:30:00+00:00", START + timedelta(seconds=DEADLINE)) in (
        fleet.line.last
    )
    assert Topic.CLUSTERS_SILENT not in fleet.topics()


def test_after_the_deadline_the_stage_goes_on_without_it() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    prod = fleet.report(DEADLINE)
    assert (prod.health, prod.verified) == (Health.HEALTHY, True)
    assert prod.reason == "goes on without silent clusters: c2 (last seen at noon)"
    assert prod.progress[ServiceId("prod-2")] is Progress.LEFT_OUT
    assert fleet.topics().count(Topic.CLUSTERS_SILENT) == 1
    assert prod.reason in fleet.history()
    fleet.report(60)
    assert fleet.topics().count(Topic.CLUSTERS_SILENT) == 1


def test_the_next_stage_gets_the_release_without_the_silent_cluster() -> None:
    pipeline = make_pipeline({"dev prod": [], "prod last": []}, services=3)
    fleet = Fleet(pipeline, {"prod-1"})
    release = fleet.prod.release
    fleet.line.render("last", release or ReleaseId(""))
    waiting = fleet.report(60) and fleet.line.candidate("prod last")
    assert waiting is not None and "c1 (last seen at noon)" in waiting.reason
    fleet.report(DEADLINE)
    assert fleet.line.stage("last").release == release


def test_a_cluster_that_is_heard_is_waited_for_without_an_end() -> None:
    fleet = Fleet(rolled(Rollout()))
    fleet.progressing = {"prod-2"}
    prod = fleet.report(30 * DEADLINE)
    assert prod.health is Health.PROGRESSING
    assert fleet.line.last[-1] == WakeAt(
        f"wake/{(fleet.line.now + timedelta(seconds=60)).isoformat()}",
        fleet.line.now + timedelta(seconds=60),
    )


def test_a_cluster_that_is_heard_and_fails_is_not_left_out() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.failed = {"prod-1"}
    prod = fleet.report(DEADLINE)
    assert (prod.health, prod.reason) == (Health.FAILED, "crash loop")


def test_a_failure_that_was_heard_before_the_silence_counts() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-1"})
    fleet.failed = {"prod-1"}
    assert fleet.report(DEADLINE).health is Health.FAILED


def test_a_cluster_that_returns_catches_up_without_holding_the_stage() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.report(DEADLINE)
    fleet.silent, fleet.progressing = set(), {"prod-2"}
    assert fleet.report(60).health is Health.HEALTHY
    assert fleet.prod.progress[ServiceId("prod-2")] is Progress.LEFT_OUT
    fleet.progressing = set()
    prod = fleet.report(60)
    assert prod.progress[ServiceId("prod-2")] is Progress.HEALTHY
    assert (prod.health, prod.reason, prod.silence.left_out) == (Health.HEALTHY, "", {})
    assert fleet.topics().count(Topic.CLUSTERS_BACK) == 1
    assert "no longer left out: c2 (last seen at noon)" in fleet.history()


def test_a_cluster_that_returns_and_fails_fails_its_stage() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.report(DEADLINE)
    fleet.silent, fleet.failed = set(), {"prod-2"}
    assert fleet.report(60).health is Health.FAILED


def test_a_silent_cluster_gets_every_later_release() -> None:
    """Whatever was released by the time it returns is what it finds."""
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.report(DEADLINE)
    newer = fleet.enter("c2")
    last = [effect for effect in fleet.line.effects if isinstance(effect, Promote)][-1]
    assert last.release == newer and ServiceId("prod-2") in last.revisions
    assert fleet.prod.silence == StageState().silence
    assert fleet.report(DEADLINE - 1).health is Health.PROGRESSING
    assert fleet.report(1).health is Health.HEALTHY


def test_each_wave_has_a_deadline_of_its_own() -> None:
    rollout = Rollout(Strategy.WAVES, wave_size=2)
    fleet = Fleet(rolled(rollout), {"prod-1", "prod-3"})
    fleet.report(DEADLINE)
    assert set(fleet.prod.progress) == {"prod-0", "prod-1", "prod-2", "prod-3"}
    assert fleet.report(DEADLINE - 1).health is Health.PROGRESSING
    assert fleet.report(1).health is Health.HEALTHY
    assert fleet.prod.silence.left_out.keys() == {"prod-1", "prod-3"}


def test_a_left_out_cluster_frees_its_place_in_the_rollout() -> None:
    rollout = Rollout(Strategy.ROLLING, max_unavailable=1)
    fleet = Fleet(rolled(rollout), {"prod-0"})
    assert set(fleet.report(DEADLINE).progress) == {"prod-0", "prod-1"}


@pytest.mark.parametrize(
    ("rollout", "silent", "why"),
    [
        (Rollout(), {"prod-0", "prod-1", "prod-2"}, "more than 50% of the stage"),
        (Rollout(max_silent_percent=0), {"prod-0"}, "more than 0% of the stage"),
        (
            Rollout(max_silent_percent=100),
            {"prod-0", "prod-1", "prod-2", "prod-3"},
            "the whole stage",
        ),
        (Rollout(Strategy.CANARY, canary_count=2), {"prod-0", "prod-1"}, "all canaries"),
    ],
)
def test_beyond_the_limit_the_stage_waits_and_says_so_once(
    rollout: Rollout, silent: set[str], why: str
) -> None:
    fleet = Fleet(rolled(rollout), silent)
    prod = fleet.report(DEADLINE)
    assert (prod.health, prod.silence.left_out) == (Health.PROGRESSING, {})
    assert why in prod.reason and "c0 (last seen at noon)" in prod.reason
    fleet.report(60)
    assert fleet.topics().count(Topic.CLUSTERS_SILENT) == 1
    fleet.silent = set()
    fleet.report(60)
    assert (fleet.report().health, fleet.prod.reason) == (Health.HEALTHY, "")


def test_a_retry_waits_for_the_silent_clusters_again() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.failed = {"prod-1"}
    fleet.report(DEADLINE)
    fleet.failed = set()
    fleet.line.send(Retried(PROD, fleet.prod.release or ReleaseId(""), "bo"))
    assert fleet.report(DEADLINE - 1).health is Health.PROGRESSING
    assert fleet.report(1).health is Health.HEALTHY


def test_silence_never_rolls_back() -> None:
    pipeline = rolled(Rollout())
    prod = replace(pipeline.stage[PROD], verification=Verification(60))
    fleet = Fleet(replace(pipeline, stages=(pipeline.first, prod)))
    fleet.report()
    fleet.report(60)
    fleet.silent = {"prod-0", "prod-1", "prod-2"}
    newer = fleet.enter("c2")
    fleet.report(5 * DEADLINE)
    assert (fleet.prod.release, fleet.prod.hold) == (newer, "")
    assert fleet.line.state.known_bad == {}


def test_the_first_stage_goes_on_without_silent_clusters() -> None:
    """Its services follow git, so it has no rollout, but the same deadline and limit."""
    line = Line(make_pipeline({"dev prod": []}, services=3))
    release = line.observe("c1", Health.PROGRESSING)
    line.render("prod", release)
    silent = ServiceId("dev-1")
    line.send(ClustersSilent({silent: "lab (never seen)"}))
    observed = line.log[0][0]
    line.now += timedelta(seconds=DEADLINE - 1)
    line.send(replace(observed, unsettled=(silent,)))
    assert line.stage("dev").health is Health.PROGRESSING
    assert "lab (never seen)" in line.stage("dev").reason
    line.now += timedelta(seconds=1)
    line.send(replace(observed, unsettled=(silent, ServiceId("dev-2"))))
    assert line.stage("dev").health is Health.PROGRESSING
    line.send(replace(observed, unsettled=(silent,)))
    assert line.stage("dev").health is Health.HEALTHY
    assert line.stage("prod").release == release
    line.send(replace(observed, health=Health.HEALTHY))
    assert line.stage("dev").silence == StageState().silence


def test_the_reason_of_a_gate_names_the_silent_cluster() -> None:
    line = Line(two_stages())
    release = line.observe("c1", Health.PROGRESSING)
    line.render("prod", release)
    silent = ServiceId("dev-0")
    line.send(ClustersSilent({silent: "lab (never seen)"}))
    line.send(replace(line.log[0][0], unsettled=(silent,)))
    waiting = line.candidate("dev prod")
    assert waiting is not None
    assert "lab (never seen)" in waiting.reason
    assert all("lab (never seen)" in gate.reason for gate in waiting.gates.values())


@pytest.mark.parametrize(
    "rollout",
    [
        Rollout(silent_deadline_seconds=-1),
        Rollout(silent_deadline_seconds=10**8),
        Rollout(max_silent_percent=101),
        Rollout(max_silent_percent=-1),
    ],
)
def test_limits_of_silence_are_checked(rollout: Rollout) -> None:
    with pytest.raises(Invalid):
        rollout.check("stages[0].rollout")


def test_a_cluster_that_falls_silent_as_the_wave_ends_has_the_deadline_of_the_stage() -> None:
    """The wave has ended, so its begin no longer counts: not even for the report that ends it."""
    line = Line(rolled(Rollout(), 2))
    line.send(Budgeted(BudgetRoom((), "the group is full")))
    release = line.observe("c1")
    line.render("prod", release)
    line.pass_time(60)
    line.send(Budgeted(None))
    well, slow = dict.fromkeys(line.stage("prod").progress, Health.HEALTHY), Health.PROGRESSING
    line.send(ServicesHealth(PROD, release, well | {ServiceId("prod-1"): slow}))
    line.send(ClustersSilent({ServiceId("prod-0"): "c0"}))
    line.send(ServicesHealth(PROD, release, well | {ServiceId("prod-0"): slow}))
    assert line.stage("prod").reason == (
        "waits for silent clusters until 2026-01-01 00:30:00 UTC: c0"
    )


def test_a_release_behind_a_stage_that_waits_for_silent_clusters_says_so() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.report(1)
    newer = fleet.enter("c2")
    candidate = fleet.line.candidate("dev prod")
    assert candidate is not None and candidate.release == newer
    assert candidate.reason == (
        f"prod is still rolling out {fleet.prod.release}: waits for silent clusters until "
        "2026-01-01 00:30:00 UTC: c2 (last seen at noon)"
    )


@pytest.mark.parametrize(("silent", "goes_on"), [({"prod-0"}, True), ({"prod-0", "prod-1"}, False)])
def test_a_rollout_goes_on_without_some_canaries_but_not_without_all(
    silent: set[str], goes_on: bool
) -> None:
    rollout = Rollout(Strategy.CANARY, canary_count=2, silent_deadline_seconds=DEADLINE)
    fleet = Fleet(rolled(rollout, 6), silent)
    prod = fleet.report(DEADLINE)
    assert (len(prod.progress) == 6) is goes_on
    assert ("because they are all canaries" in prod.silence.reason) is not goes_on


def test_a_first_wave_that_is_silent_as_a_whole_is_left_out() -> None:
    fleet = Fleet(rolled(Rollout(Strategy.WAVES, wave_size=1), 4), {"prod-0"})
    assert len(fleet.report(DEADLINE).progress) == 2


def test_a_cluster_that_catches_up_is_not_announced_as_silent() -> None:
    fleet = Fleet(rolled(Rollout()), {"prod-2"})
    fleet.report(DEADLINE)
    fleet.silent = set()
    fleet.report(60)
    assert fleet.topics().count(Topic.CLUSTERS_SILENT) == 1
    assert fleet.topics().count(Topic.CLUSTERS_BACK) == 1


def test_the_deadline_counts_from_the_begin_of_the_wave_not_of_its_last_batch() -> None:
    fleet = Fleet(rolled(Rollout(Strategy.ROLLING, max_unavailable=2), 4), {"prod-1"})
    fleet.report(600)
    prod = fleet.report(600)
    assert prod.silence.reason.startswith("waits for silent clusters until 2026-01-01 00:30:00")
