"""Waves of a stage: who is first, how many at a time, when it stops, how it goes back."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipelines.engine.effects import Notify, Promote, Topic, WakeAt
from controlplane.pipelines.engine.events import (
    Aborted,
    DenialRemoved,
    Frozen,
    Lifted,
    Paused,
    Resumed,
    Retried,
    RevisionDenied,
    ServicesHealth,
    VerificationFailed,
)
from controlplane.pipelines.model.pipeline import Pipeline, StageId, Verification, validate
from controlplane.pipelines.model.rollout import (
    BudgetRoom,
    Progress,
    Rollout,
    RolloutState,
    StageMember,
    Strategy,
    next_batch,
    plan_waves,
)
from controlplane.pipelines.model.state import Health, ReleaseId
from core.errors import Invalid
from core.identity import ServiceId
from tests.fakes.pipelines import START, Line, make_pipeline

DEV, PROD = StageId("dev"), StageId("prod")


def members(count: int, groups: Iterable[str] = ()) -> list[StageMember]:
    names = list(groups) or [""]
    return [
        StageMember(ServiceId(f"prod-{n}"), f"c{n:04}", (names[n % len(names)],))
        for n in range(count)
    ]


def rolled(rollout: Rollout, count: int, groups: Iterable[str] = ()) -> Pipeline:
    """dev → prod without gates, prod with so many services rolled out like this."""
    pipeline = make_pipeline({"dev prod": []}, services=count)
    chosen = members(count, groups)
    stages = tuple(
        replace(
            stage,
            rollout=rollout,
            waves=plan_waves(rollout, chosen),
            group_of={one.service: one.groups[0] for one in chosen},
        )
        if stage.id == PROD
        else stage
        for stage in pipeline.stages
    )
    return validate(replace(pipeline, stages=stages))


class Roll:
    """A release that has just entered prod."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.line = Line(pipeline)
        self.well: set[ServiceId] = set()
        self.release = self.move("c1")

    def move(self, content: str) -> ReleaseId:
        release = self.line.observe(content)
        self.line.render("prod", release)
        return release

    def given(self) -> list[set[ServiceId]]:
        """The services of each batch so far."""
        return [set(one.revisions) for one in self.line.effects if isinstance(one, Promote)]

    def report(self, *failed: str, release: ReleaseId | None = None) -> None:
        """Reports all updated services as healthy, except for these."""
        held = self.line.stage("prod")
        bad = {ServiceId(one) for one in failed}
        healths = {one: Health.FAILED if one in bad else Health.HEALTHY for one in held.progress}
        reasons = dict.fromkeys(bad, "crash loop")
        name = release or held.release or ReleaseId("none")
        self.line.send(ServicesHealth(PROD, name, healths, reasons))


def test_all_get_it_at_once_by_default() -> None:
    roll = Roll(rolled(Rollout(), 3))
    assert [len(one) for one in roll.given()] == [3]


def test_rolling_keeps_to_its_number() -> None:
    roll = Roll(rolled(Rollout(Strategy.ROLLING, max_unavailable=2), 5))
    sizes = []
    while roll.line.stage("prod").promoting:
        sizes.append(len(roll.given()[-1]))
        roll.report()
    assert sizes == [2, 2, 1]
    assert roll.line.stage("prod").verified


def test_canaries_come_first_and_soak() -> None:
    """Two canaries, ten minutes, then the rest."""
    rollout = Rollout(Strategy.CANARY, canary_count=2, pause_seconds=600)
    roll = Roll(rolled(rollout, 5))
    assert roll.given() == [{"prod-0", "prod-1"}]
    roll.report()
    assert "wave 2 begins" in roll.line.stage("prod").rollout_reason
    assert START + timedelta(seconds=600) in [
        one.at for one in roll.line.last if isinstance(one, WakeAt)
    ]
    roll.line.pass_time(599)
    assert len(roll.given()) == 1
    roll.line.pass_time(1)
    assert roll.given()[1:] == [{"prod-2", "prod-3", "prod-4"}]


def test_without_its_canaries_nobody_gets_it() -> None:
    """A mistyped handle, or a cluster that has gone, does not make everybody a canary."""
    roll = Roll(rolled(Rollout(Strategy.CANARY, canaries=("lab-1",)), 3))
    assert roll.given() == []
    reason = "none of the canary clusters is in the stage: lab-1"
    assert roll.line.stage("prod").rollout_reason == reason


def test_waves_go_by_groups_and_the_rest_is_last() -> None:
    rollout = Rollout(Strategy.WAVES, groups=("eu", "us"))
    roll = Roll(rolled(rollout, 6, ("us", "eu", "asia")))
    for _ in range(3):
        roll.report()
    assert roll.given() == [{"prod-1", "prod-4"}, {"prod-0", "prod-3"}, {"prod-2", "prod-5"}]


def test_a_group_never_has_more_than_its_share_under_way() -> None:
    rollout = Rollout(Strategy.ROLLING, max_unavailable=4, max_per_group=1, groups=("a", "b"))
    roll = Roll(rolled(rollout, 6, ("a", "b")))
    while roll.line.stage("prod").promoting:
        assert len(roll.given()[-1]) == 2
        roll.report()
    assert len(roll.given()) == 3


def test_the_budget_stops_it() -> None:
    """One failure is within the budget, the second is not: nobody else gets the release."""
    rollout = Rollout(Strategy.WAVES, wave_size=2, max_failed=1)
    roll = Roll(rolled(rollout, 6))
    roll.report("prod-0")
    roll.report("prod-0", "prod-2")
    held = roll.line.stage("prod")
    assert held.health is Health.FAILED
    assert "2 failed, limit 1" in held.reason
    assert len(roll.given()) == 2


def test_a_failure_within_the_budget_does_not_hide() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=2, max_failed=1), 2))
    roll.report("prod-1")
    held = roll.line.stage("prod")
    assert (held.health, held.reason) == (Health.HEALTHY, "1 services failed, within the limit")


def test_retrying_gives_it_only_to_those_that_are_not_well() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=2), 4))
    roll.report("prod-1")
    roll.line.send(Retried(PROD, roll.release, "bo"))
    assert roll.given()[1:] == [{"prod-1"}]


def test_retrying_gives_it_to_all_services_that_got_it_together() -> None:
    roll = Roll(rolled(Rollout(max_failed=0), 2))
    roll.report("prod-1")
    roll.line.send(Retried(PROD, roll.release, "bo"))
    assert roll.given()[1:] == [{"prod-0", "prod-1"}]


def test_retrying_a_first_wave_does_not_wait_for_a_pause() -> None:
    """The pause counts from a wave before it, and the retry begins with the first one."""
    rollout = Rollout(Strategy.WAVES, wave_size=1, pause_seconds=600, max_failed=0)
    roll = Roll(rolled(rollout, 2))
    roll.report("prod-0")
    roll.line.send(Retried(PROD, roll.release, "bo"))
    assert roll.given()[1:] == [{"prod-0"}]


def test_the_history_tells_the_batches_of_a_release_that_goes_in_parts() -> None:
    parts = Roll(rolled(Rollout(Strategy.WAVES, wave_size=2), 3)).line.state.history
    assert parts[-1].text == "given to 2 services: 0 of 3 services are healthy, wave 1 of 2"
    whole = Roll(rolled(Rollout(), 3)).line.state.history
    assert whole[-1].text == "promoted"


def test_an_abort_leaves_everything_where_it_is_until_a_retry() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=1), 3))
    roll.line.send(Aborted(PROD, roll.release, "bo", "looks odd"))
    roll.line.send(ServicesHealth(PROD, roll.release, {}))
    assert len(roll.given()) == 1
    assert "aborted by bo" in roll.line.stage("prod").reason
    roll.line.send(Retried(PROD, roll.release, "bo"))
    assert len(roll.given()) == 2


def test_a_newer_release_follows_an_aborted_one() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=1), 3))
    roll.line.send(Aborted(PROD, roll.release, "bo", "looks odd"))
    newer = roll.move("c2")
    assert roll.line.stage("prod").release == newer


def test_nothing_is_given_while_paused() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=1), 3))
    roll.line.send(Paused("bo", "incident"))
    roll.report()
    assert len(roll.given()) == 1
    roll.line.send(Resumed("bo"))
    assert len(roll.given()) == 2


def test_frozen_clusters_are_passed_over_and_named() -> None:
    """The freeze of a group stops it there and nowhere else."""
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=2), 4))
    roll.line.send(Frozen({ServiceId("prod-2"): "group eu is frozen"}))
    roll.report()
    roll.report()
    assert roll.given() == [{"prod-0", "prod-1"}, {"prod-3"}]
    assert "frozen" in roll.line.stage("prod").rollout_reason
    roll.line.send(Frozen({}))
    assert roll.given()[2:] == [{"prod-2"}]


def test_nothing_enters_a_stage_that_is_frozen_as_a_whole() -> None:
    line = Line(rolled(Rollout(), 1))
    line.send(Frozen({ServiceId("prod-0"): "group eu is frozen by ann"}))
    line.render("prod", line.observe("c1"))
    waiting = line.candidate("dev prod")
    assert waiting is not None
    assert waiting.reason == "group eu is frozen by ann"


def test_a_cluster_deleted_on_the_way_is_not_waited_for() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=2), 4))
    prod = roll.line.pipeline.stage[PROD]
    services = tuple(one for one in prod.services if one != "prod-1")
    waves = tuple(tuple(s for s in wave if s != "prod-1") for wave in prod.waves)
    smaller = replace(prod, services=services, waves=waves)
    stages = (roll.line.pipeline.first, smaller)
    roll.line.pipeline = replace(roll.line.pipeline, stages=stages)
    held = roll.line.stage("prod")
    healths = {ServiceId("prod-0"): Health.HEALTHY}
    roll.line.send(ServicesHealth(PROD, held.release or ReleaseId(""), healths))
    assert roll.given()[1:] == [{"prod-2", "prod-3"}]


def watched(seconds: int = 60) -> Roll:
    """r1 has proved itself in prod, r2 has just become healthy there."""
    pipeline = rolled(Rollout(), 2)
    stages = tuple(
        replace(one, verification=Verification(seconds)) if one.id == PROD else one
        for one in pipeline.stages
    )
    roll = Roll(replace(pipeline, stages=stages))
    roll.report()
    roll.line.pass_time(seconds)
    roll.move("c2")
    roll.report()
    return roll


def test_a_failure_within_verification_rolls_the_stage_back() -> None:
    """The stage gets the digests of r1 again, r2's are refused, and the hold says why."""
    roll = watched()
    bad = roll.line.stage("prod").revisions
    roll.line.pass_time(59)
    roll.report("prod-1")
    held = roll.line.stage("prod")
    assert held.release == roll.release
    assert "crash loop" in held.hold
    back = roll.line.last
    promoted = [one for one in roll.line.effects if isinstance(one, Promote)][-1]
    assert promoted.back and set(promoted.revisions) == {"prod-0", "prod-1"}
    assert {one.digest for one in bad.values()} <= roll.line.state.known_bad.keys()
    assert any(isinstance(one, Notify) and one.topic is Topic.ROLLED_BACK for one in back)
    roll.report()
    waiting = roll.line.candidate("dev prod")
    assert waiting is not None
    roll.line.render("prod", waiting.release)
    waiting = roll.line.candidate("dev prod")
    assert waiting is not None and "is denied" in waiting.reason
    assert roll.line.stage("prod").health is Health.HEALTHY


def test_a_failure_after_verification_keeps_the_release() -> None:
    roll = watched()
    roll.line.pass_time(60)
    roll.report("prod-1")
    held = roll.line.stage("prod")
    assert (held.health, held.hold) == (Health.FAILED, "")


def test_one_cluster_that_went_back_takes_its_stage_with_it() -> None:
    """An agent that decided by itself, perhaps cut off, is believed."""
    roll = watched()
    newer = roll.line.stage("prod").release or ReleaseId("")
    roll.line.send(VerificationFailed(PROD, newer, ServiceId("prod-0"), "error rate 7 %"))
    assert roll.line.stage("prod").release == roll.release
    assert "error rate" in roll.line.stage("prod").hold


def test_a_rollback_is_recorded_and_counts_as_another_attempt() -> None:
    """So users hear again when the stage is healthy with the release from before."""
    roll = watched()
    before = roll.line.stage("prod")
    roll.report("prod-1")
    after = roll.line.stage("prod")
    text = f"{before.release} was rolled back to {roll.release}: crash loop"
    assert text in [entry.text for entry in roll.line.state.history if entry.place == PROD]
    assert (after.attempt, after.batches) == (before.attempt + 1, before.batches + 1)
    roll.report()
    news = [one for one in roll.line.effects if isinstance(one, Notify)]
    healthy = [one.key for one in news if one.topic is Topic.STAGE_VERIFIED and one.place == PROD]
    assert len(set(healthy)) == 3


def test_a_service_that_has_left_the_stage_is_not_rolled_back() -> None:
    roll = watched()
    dev, prod = roll.line.pipeline.stages
    smaller = replace(prod, services=prod.services[1:], waves=(prod.services[1:],))
    roll.line.pipeline = replace(roll.line.pipeline, stages=(dev, smaller))
    roll.report("prod-1")
    assert set(roll.line.stage("prod").revisions) == {"prod-1"}


def test_an_agent_that_went_back_from_a_proven_release_only_denies_it() -> None:
    roll = watched()
    roll.line.pass_time(60)
    state = roll.line.stage("prod")
    release, batches = state.release or ReleaseId(""), roll.given()
    roll.line.send(VerificationFailed(PROD, release, ServiceId("other"), "error rate 7 %"))
    assert roll.line.notes() == [f"the stage does not hold release {release}"]
    roll.line.send(VerificationFailed(PROD, release, ServiceId("prod-0"), "error rate 7 %"))
    assert state.revisions[ServiceId("prod-0")].digest in roll.line.state.known_bad
    after = roll.line.stage("prod")
    assert (after.release, after.health, roll.given()) == (release, Health.FAILED, batches)


def test_an_agent_that_went_back_in_the_first_stage_only_denies_the_release() -> None:
    roll = watched()
    dev = roll.line.stage("dev")
    release, digest = dev.release or ReleaseId(""), dev.revisions[ServiceId("dev-0")].digest
    roll.line.send(VerificationFailed(DEV, release, ServiceId("dev-0"), "error rate 7 %"))
    assert digest in roll.line.state.known_bad
    assert (roll.line.stage("dev").release, roll.line.stage("dev").health) == (
        release,
        Health.FAILED,
    )


def test_missing_canaries_stop_only_the_first_wave() -> None:
    rollout = Rollout(Strategy.CANARY, canaries=("c0000",))
    roll = Roll(rolled(rollout, 3))
    roll.line.send(Frozen({ServiceId("prod-1"): "frozen", ServiceId("prod-2"): "frozen"}))
    roll.report()
    dev, prod = roll.line.pipeline.stages
    left = replace(prod, services=prod.services[1:], waves=((), prod.services[1:]))
    roll.line.pipeline = replace(roll.line.pipeline, stages=(dev, left))
    roll.line.send(Frozen({}))
    assert roll.given()[1:] == [{"prod-1", "prod-2"}]


def test_a_release_that_is_denied_meanwhile_goes_to_no_further_wave() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=1), 2))
    roll.line.send(RevisionDenied("c1", "eve", "leaks"))
    roll.report()
    assert len(roll.given()) == 1
    assert roll.line.stage("prod").rollout_reason == "c1 is denied: eve: leaks"


def test_a_service_that_joins_during_a_rollout_waits_for_the_next_release() -> None:
    roll = Roll(rolled(Rollout(Strategy.WAVES, wave_size=1), 2))
    dev, prod = roll.line.pipeline.stages
    joined = (*prod.services, ServiceId("prod-new"))
    larger = replace(prod, services=joined, waves=(*prod.waves, (joined[-1],)))
    roll.line.pipeline = replace(roll.line.pipeline, stages=(dev, larger))
    for _ in range(3):
        roll.report()
    assert roll.given() == [{"prod-0"}, {"prod-1"}]
    assert roll.line.stage("prod").health is Health.HEALTHY


def test_a_failure_without_verification_is_not_rolled_back() -> None:
    roll = Roll(rolled(Rollout(), 2))
    roll.report()
    newer = roll.move("c2")
    roll.report("prod-0")
    state = roll.line.stage("prod")
    assert (state.release, state.health, state.hold) == (newer, Health.FAILED, "")


def test_an_aborted_rollout_is_not_rolled_back() -> None:
    """The user decides what comes next."""
    roll = watched()
    newer = roll.move("c3")
    roll.line.send(Aborted(PROD, newer, "bo", "looks odd"))
    roll.report("prod-0")
    state = roll.line.stage("prod")
    assert (state.release, state.reason) == (newer, "aborted by bo: looks odd")


def test_a_rollback_ends_the_abort_of_the_release_that_it_removes() -> None:
    roll = watched()
    newer = roll.move("c3")
    roll.line.send(Aborted(PROD, newer, "bo", "looks odd"))
    roll.line.send(VerificationFailed(PROD, newer, ServiceId("prod-0"), "error rate 7 %"))
    roll.report()
    state = roll.line.stage("prod")
    assert (state.release, state.health, state.stopped) == (roll.release, Health.HEALTHY, "")


def test_a_lifted_hold_and_cleared_digests_let_it_in_again() -> None:
    roll = watched()
    bad = roll.line.stage("prod").revisions
    roll.report("prod-1")
    roll.line.send(Lifted(PROD, "bo"))
    assert roll.line.stage("prod").hold == ""
    for revision in bad.values():
        roll.line.send(DenialRemoved(revision.digest, "bo"))
    roll.report()
    waiting = roll.line.candidate("dev prod")
    assert waiting is not None
    roll.line.render("prod", waiting.release)
    assert roll.line.stage("prod").revisions == bad


@pytest.mark.parametrize(
    ("rollout", "field"),
    [
        (Rollout(Strategy.ROLLING), "maxUnavailable"),
        (Rollout(Strategy.CANARY), "canaries"),
        (Rollout(Strategy.WAVES), "groups"),
        (Rollout(max_per_group=1), "groups"),
        (Rollout(pause_seconds=30 * 86_400 + 1), "pauseSeconds"),
        (Rollout(pause_seconds=-1), "pauseSeconds"),
        (Rollout(silent_deadline_seconds=30 * 86_400 + 1), "silentDeadlineSeconds"),
        (Rollout(max_silent_percent=101), "maxSilentPercent"),
        (Rollout(max_silent_percent=-1), "maxSilentPercent"),
        (Rollout(Strategy.CANARY, canaries=("c",) * 1_001), "canaries"),
        (Rollout(Strategy.WAVES, groups=("g",) * 1_001), "groups"),
    ],
)
def test_a_rollout_that_cannot_be_meant_is_refused_by_its_field(
    rollout: Rollout, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        rollout.check("rollout")
    assert error.value.field == f"rollout.{field}"


@pytest.mark.parametrize(
    "name", ["max_unavailable", "max_per_group", "max_failed", "canary_count", "wave_size"]
)
def test_a_number_of_services_has_its_limits(name: str) -> None:
    valid = Rollout(Strategy.WAVES, groups=("g",), max_unavailable=1)
    replace(valid, **{name: 1_000}).check("rollout")
    for count in (-1, 1_001):
        with pytest.raises(Invalid):
            replace(valid, **{name: count}).check("rollout")


def test_waves_of_a_size_go_by_the_handles_of_clusters() -> None:
    waves = plan_waves(Rollout(Strategy.WAVES, wave_size=2), list(reversed(members(5))))
    assert waves == (("prod-0", "prod-1"), ("prod-2", "prod-3"), ("prod-4",))


def test_canaries_are_all_services_of_their_clusters() -> None:
    """A cluster is a canary, not a single service in it."""
    chosen = [*members(3), StageMember(ServiceId("extra"), "c0000")]
    by_count = plan_waves(Rollout(Strategy.CANARY, canary_count=1), chosen)
    by_name = plan_waves(Rollout(Strategy.CANARY, canaries=("c0000",), canary_count=3), chosen)
    assert by_count == by_name == (("extra", "prod-0"), ("prod-1", "prod-2"))


def test_a_cluster_of_several_groups_goes_with_the_first_one() -> None:
    both = [StageMember(ServiceId("both"), "c1", ("us", "eu"))]
    rollout = Rollout(Strategy.WAVES, groups=("eu", "us"))
    assert plan_waves(rollout, [*both, *members(1, ("us",))]) == (("both",), ("prod-0",))


def test_a_stage_without_services_has_no_wave() -> None:
    for rollout in (Rollout(), Rollout(Strategy.CANARY, canaries=("x",))):
        assert plan_waves(rollout, []) == ()


def test_only_named_canaries_that_are_missing_leave_an_empty_wave() -> None:
    """A group without a cluster in the stage does not hold the others up."""
    groups = Rollout(Strategy.WAVES, groups=("eu", "us"))
    assert plan_waves(groups, members(1, ("us",))) == (("prod-0",),)
    everybody = Rollout(Strategy.CANARY, canary_count=5)
    assert plan_waves(everybody, members(2)) == (("prod-0", "prod-1"),)
    missing = Rollout(Strategy.CANARY, canaries=("lab",))
    assert plan_waves(missing, members(1)) == ((), ("prod-0",))


def test_a_group_gets_as_many_services_as_it_may() -> None:
    rollout = Rollout(max_per_group=2, groups=("a",))
    group_of = {one.service: "a" for one in members(3)}
    state = RolloutState(plan_waves(rollout, members(3)), {}, group_of=group_of)
    batch = next_batch(rollout, state, START)
    assert batch.services == ("prod-0", "prod-1")
    assert batch.reason == "0 of 3 services are healthy", "one wave has no number"


def test_a_pause_between_waves_ends_at_its_second() -> None:
    rollout = Rollout(Strategy.WAVES, wave_size=1, pause_seconds=60)
    waves = plan_waves(rollout, members(2))
    state = RolloutState(waves, {ServiceId("prod-0"): Progress.HEALTHY}, wave_done_at=START)
    early = next_batch(rollout, state, START + timedelta(seconds=59))
    assert early.services == () and early.wake == START + timedelta(seconds=60)
    assert early.reason == "wave 2 begins at 00:01:00 UTC"
    assert next_batch(rollout, state, START + timedelta(seconds=60)).services == ("prod-1",)


def test_a_wave_that_has_begun_waits_for_no_pause() -> None:
    rollout = Rollout(Strategy.WAVES, wave_size=2, pause_seconds=60, max_unavailable=1)
    waves = plan_waves(rollout, members(4))
    done = {ServiceId(f"prod-{number}"): Progress.HEALTHY for number in range(3)}
    state = RolloutState(waves, done, wave_done_at=START)
    assert next_batch(rollout, state, START).services == ("prod-3",)


def test_the_limits_of_a_rollout_hold_together() -> None:
    """Services under way count against the limit of their group and of the whole."""
    rollout = Rollout(Strategy.ROLLING, max_unavailable=3, max_per_group=1, groups=("a", "b"))
    waves = plan_waves(rollout, members(6, ("a", "b")))
    group_of = {one.service: one.groups[0] for one in members(6, ("a", "b"))}
    busy = {ServiceId("prod-0"): Progress.GIVEN}
    batch = next_batch(rollout, RolloutState(waves, busy, group_of=group_of), START)
    assert batch.services == ("prod-1",), "a is busy, b has one place"
    batch = next_batch(rollout, RolloutState(waves, busy, group_of={}), START)
    assert len(batch.services) == 2, "clusters of no group have no limit of theirs"


def test_a_budget_that_is_used_up_is_asked_again() -> None:
    room = BudgetRoom((), "cluster group 'eu' is full")
    state = RolloutState(((ServiceId("prod-0"),),), {}, room=room)
    batch = next_batch(Rollout(), state, START)
    assert (batch.services, batch.reason) == ((), "cluster group 'eu' is full")
    assert batch.wake == START + timedelta(seconds=60)
    free = replace(state, room=replace(room, free=(ServiceId("prod-0"),)))
    assert next_batch(Rollout(), free, START).services == ("prod-0",)


def test_the_progress_counts_healthy_and_left_out_services() -> None:
    waves = plan_waves(Rollout(Strategy.WAVES, wave_size=2), members(4))
    progress = {
        ServiceId("prod-0"): Progress.HEALTHY,
        ServiceId("prod-1"): Progress.LEFT_OUT,
        ServiceId("prod-2"): Progress.GIVEN,
        ServiceId("prod-3"): Progress.GIVEN,
    }
    batch = next_batch(Rollout(Strategy.WAVES, wave_size=2), RolloutState(waves, progress), START)
    silent = "1 left out because their clusters are silent"
    assert batch.reason == f"1 of 4 services are healthy, {silent}, wave 2 of 2"


ROLLOUTS = st.one_of(
    st.builds(Rollout, st.just(Strategy.ROLLING), max_unavailable=st.integers(1, 5)),
    st.builds(Rollout, st.just(Strategy.CANARY), canary_count=st.integers(1, 5)),
    st.builds(Rollout, st.just(Strategy.WAVES), wave_size=st.integers(1, 5)),
    st.just(Rollout(Strategy.WAVES, groups=("a", "b"), max_per_group=2)),
)


@given(rollout=ROLLOUTS, count=st.integers(1, 30), order=st.randoms())
@settings(deadline=None)
def test_nobody_is_skipped_or_served_twice(
    rollout: Rollout, count: int, order: random.Random
) -> None:
    """Whatever the order in which services become healthy, each is given the release once."""
    waves = plan_waves(rollout, members(count, ("a", "b", "c")))
    progress: dict[ServiceId, Progress] = {}
    given: list[ServiceId] = []
    group_of = {one.service: one.groups[0] for one in members(count, ("a", "b", "c"))}
    while len(progress) < count or Progress.GIVEN in progress.values():
        standing = RolloutState(waves, progress, wave_done_at=START, group_of=group_of)
        batch = next_batch(rollout, standing, START + timedelta(days=1))
        given += batch.services
        progress |= dict.fromkeys(batch.services, Progress.GIVEN)
        under_way = [one for one, how in progress.items() if how is Progress.GIVEN]
        assert under_way, "somebody waits and nobody is under way"
        if rollout.max_unavailable:
            assert len(under_way) <= rollout.max_unavailable
        progress[order.choice(under_way)] = Progress.HEALTHY
    assert sorted(given) == sorted(ServiceId(f"prod-{n}") for n in range(count))
