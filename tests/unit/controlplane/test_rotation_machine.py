"""Rotation of a secret: what may never happen, whatever consumers, people and time do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controlplane.secrets.model.rotation import (
    Rotation,
    RotationDecision,
    RotationPhase,
    RotationPlan,
    RotationStep,
    SecretConsumer,
    advance_rotation,
    apply_decision,
)
from core.errors import Conflict, Invalid

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OLD, NEW = 3, 4


def begun(**plan: Any) -> Rotation:
    return Rotation(OLD, NEW, NOW, "ada", RotationPlan(**plan))


def consumer(id: str, version: int = OLD, **state: bool) -> SecretConsumer:
    return SecretConsumer(id, f"service-{id}", version, **state)


def test_consumers_move_batch_by_batch_and_then_soak() -> None:
    """The whole way with two consumers, one at a time, until a person revokes."""
    a, b = consumer("a", settled=True), consumer("b", settled=True)
    first = advance_rotation(begun(batch=1, soak_s=10), [a, b], NOW)
    assert first.move == ("a",)
    a = consumer("a", NEW)
    assert advance_rotation(first.rotation, [a, b], NOW).move == ()
    a = replace(a, settled=True)
    second = advance_rotation(first.rotation, [a, b], NOW)
    assert second.move == ("b",)
    b = consumer("b", NEW, settled=True)
    verifying = advance_rotation(second.rotation, [a, b], NOW).rotation
    assert verifying.phase is RotationPhase.VERIFYING
    assert advance_rotation(verifying, [a, b], NOW + timedelta(seconds=9)).rotation == verifying
    ready = advance_rotation(verifying, [a, b], NOW + timedelta(seconds=10)).rotation
    assert ready.phase is RotationPhase.READY
    done = apply_decision(ready, RotationDecision.REVOKE, [a, b], NOW)
    assert done.revoke and done.rotation.phase is RotationPhase.REVOKED


def test_a_consumer_that_fails_holds_the_rotation() -> None:
    """And says which; whoever has mended it goes on, or takes all back."""
    failed = consumer("a", NEW, failed=True)
    held = advance_rotation(begun(), [failed, consumer("b")], NOW)
    assert held.rotation.phase is RotationPhase.HELD and held.move == ()
    assert "service-a" in held.rotation.reason
    assert (
        advance_rotation(held.rotation, [consumer("a", NEW, settled=True)], NOW).rotation
        == held.rotation
    )
    resumed = apply_decision(held.rotation, RotationDecision.RESUME, [], NOW).rotation
    assert resumed.phase is RotationPhase.ROLLING
    assert (
        apply_decision(held.rotation, RotationDecision.ABORT, [], NOW).rotation.phase
        is RotationPhase.ABORTED
    )


def test_a_consumer_that_never_answers_holds_it_too() -> None:
    rotation = advance_rotation(begun(timeout_s=60), [consumer("a")], NOW).rotation
    late = advance_rotation(rotation, [consumer("a", NEW)], NOW + timedelta(seconds=60)).rotation
    assert late.phase is RotationPhase.HELD and "60 s" in late.reason


def test_pinned_consumers_are_named_and_never_moved() -> None:
    held = advance_rotation(begun(), [consumer("a", movable=False)], NOW)
    assert held.rotation.phase is RotationPhase.HELD and held.move == ()
    assert "service-a" in held.rotation.reason


def test_without_consumers_only_the_soak_is_waited_for() -> None:
    verifying = advance_rotation(begun(soak_s=0, automatic=True), [], NOW).rotation
    done = advance_rotation(verifying, [], NOW)
    assert done.revoke and done.rotation.ended_at == NOW


ALLOWED = {
    RotationDecision.ABORT: {
        RotationPhase.ROLLING: RotationPhase.ABORTED,
        RotationPhase.VERIFYING: RotationPhase.ABORTED,
        RotationPhase.READY: RotationPhase.ABORTED,
        RotationPhase.HELD: RotationPhase.ABORTED,
    },
    RotationDecision.RESUME: {RotationPhase.HELD: RotationPhase.ROLLING},
    RotationDecision.REVOKE: {RotationPhase.READY: RotationPhase.REVOKED},
}


@pytest.mark.parametrize("decision", RotationDecision)
@pytest.mark.parametrize("phase", RotationPhase)
def test_a_decision_is_possible_in_its_phases_only(
    phase: RotationPhase, decision: RotationDecision
) -> None:
    """A rotation that has ended stays as it ended."""
    before = replace(begun(), phase=phase, reason="because")
    expected = ALLOWED[decision].get(phase)
    later = NOW + timedelta(seconds=5)
    if expected is None:
        with pytest.raises(Conflict, match=phase.value):
            apply_decision(before, decision, [], later)
        return
    step = apply_decision(before, decision, [], later)
    assert step.rotation.phase is expected and step.move == ()
    assert step.revoke is (decision is RotationDecision.REVOKE)
    is_over = expected in (RotationPhase.ABORTED, RotationPhase.REVOKED)
    assert step.rotation.ended_at == (later if is_over else None)
    if decision is not RotationDecision.REVOKE:
        assert step.rotation.reason == ""


def test_a_version_that_somebody_uses_is_not_revoked() -> None:
    """A use may have been added, or moved back, after the verification."""
    ready = replace(begun(), phase=RotationPhase.READY)
    users = [consumer("a", NEW, settled=True), *(consumer(f"{n}") for n in range(6))]
    with pytest.raises(Conflict) as error:
        apply_decision(ready, RotationDecision.REVOKE, users, NOW)
    assert error.value.message == (
        "version 3 is still used by "
        "service-0, service-1, service-2, service-3, service-4 and 1 more"
    )
    with pytest.raises(Conflict, match="used by service-0, .*, service-4$"):
        apply_decision(ready, RotationDecision.REVOKE, users[1:6], NOW)
    again = advance_rotation(ready, users, NOW).rotation
    assert again.phase is RotationPhase.ROLLING
    settled = users[:1]
    assert advance_rotation(ready, settled, NOW).rotation == ready


def test_a_soak_begins_again_after_each_disturbance() -> None:
    later = NOW + timedelta(seconds=100)
    verifying = replace(begun(soak_s=10), phase=RotationPhase.VERIFYING, healthy_since=NOW)
    busy = advance_rotation(verifying, [consumer("a", NEW)], later).rotation
    assert (busy.phase, busy.healthy_since) == (RotationPhase.VERIFYING, None)
    calm = advance_rotation(busy, [consumer("a", NEW, settled=True)], later).rotation
    assert (calm.phase, calm.healthy_since) == (RotationPhase.VERIFYING, later)
    failed = advance_rotation(verifying, [consumer("a", NEW, failed=True)], later).rotation
    assert (failed.phase, failed.healthy_since) == (RotationPhase.HELD, None)
    assert failed.reason == "not healthy with version 4: service-a"
    joined = [consumer("a", NEW, settled=True), consumer("b")]
    rolling = advance_rotation(verifying, joined, later).rotation
    assert (rolling.phase, rolling.healthy_since) == (RotationPhase.ROLLING, None)
    assert advance_rotation(rolling, joined, later).move == ("b",)


def test_a_batch_waits_for_the_services_that_are_under_way() -> None:
    """A pinned service holds only when nothing moves."""
    rotation = begun(batch=2, timeout_s=60)
    pinned = consumer("p", movable=False)
    services = [consumer("a"), consumer("b"), consumer("c"), pinned]
    first = advance_rotation(rotation, services, NOW + timedelta(seconds=59))
    assert first.move == ("a", "b")
    moved = [consumer("a", NEW, settled=True), consumer("b", NEW), consumer("c"), pinned]
    soon = NOW + timedelta(seconds=100)
    second = advance_rotation(first.rotation, moved, soon)
    assert second.move == ("c",)
    under_way = [*moved[:1], consumer("b", NEW, settled=True), consumer("c", NEW), pinned]
    waiting = advance_rotation(second.rotation, under_way, soon + timedelta(seconds=59))
    assert waiting.rotation.phase is RotationPhase.ROLLING and waiting.move == ()
    late = advance_rotation(second.rotation, under_way, soon + timedelta(seconds=60))
    assert late.rotation.reason == "not healthy in 60 s: service-c"
    done = [consumer("c", NEW, settled=True), pinned]
    held = advance_rotation(second.rotation, done, soon + timedelta(seconds=999))
    assert held.rotation.reason == "pinned, or in frozen clusters: service-p"


def test_each_service_of_a_batch_has_its_own_timeout() -> None:
    """Others that become healthy meanwhile, and those moved in their place, change nothing."""
    a, b, c = (consumer(id) for id in "abc")
    rotation = advance_rotation(begun(batch=2, timeout_s=60), [a, b, c], NOW).rotation
    a, b = consumer("a", NEW, settled=True), consumer("b", NEW)
    step = advance_rotation(rotation, [a, b, c], NOW + timedelta(seconds=50))
    assert step.move == ("c",)
    c = consumer("c", NEW)
    held = advance_rotation(step.rotation, [a, b, c], NOW + timedelta(seconds=60)).rotation
    assert held.reason == "not healthy in 60 s: service-b"
    resumed = apply_decision(held, RotationDecision.RESUME, [a, b, c], NOW).rotation
    later = NOW + timedelta(seconds=600)
    again = advance_rotation(resumed, [a, b, c], later).rotation
    assert again.phase is RotationPhase.ROLLING
    late = advance_rotation(again, [a, b, c], later + timedelta(seconds=60)).rotation
    assert late.reason == "not healthy in 60 s: service-b, service-c"


def test_a_service_that_becomes_unhealthy_again_has_its_whole_timeout() -> None:
    """For example because a commit changes it while others are moved."""
    rotation = begun(batch=2, timeout_s=60)
    rotation = advance_rotation(rotation, [consumer(id) for id in "abc"], NOW).rotation
    a, b, c = consumer("a", NEW, settled=True), consumer("b", NEW), consumer("c")
    rotation = advance_rotation(rotation, [a, b, c], NOW).rotation
    b, c, later = replace(b, settled=True), consumer("c", NEW), NOW + timedelta(seconds=59)
    busy = advance_rotation(rotation, [replace(a, settled=False), b, c], later).rotation
    c = replace(c, settled=True)
    for seconds, phase in ((59, RotationPhase.ROLLING), (60, RotationPhase.HELD)):
        now = later + timedelta(seconds=seconds)
        after = advance_rotation(busy, [replace(a, settled=False), b, c], now).rotation
        assert after.phase is phase


@pytest.mark.parametrize("field", ["batch", "soak_s", "timeout_s"])
def test_plans_that_cannot_be_are_refused(field: str) -> None:
    with pytest.raises(Invalid):
        replace(RotationPlan(), **{field: -1}).checked()


class Rotating(RuleBasedStateMachine):
    """Agents, people and time in any order; the old version is gone only when nobody needs it."""

    @initialize(
        count=st.integers(0, 6),
        batch=st.integers(1, 3),
        automatic=st.booleans(),
        pinned=st.sets(st.integers(0, 5), max_size=2),
    )
    def begin(self, count: int, batch: int, automatic: bool, pinned: set[int]) -> None:
        self.now = NOW
        self.revoked = False
        self.rotation = begun(batch=batch, soak_s=30, timeout_s=120, automatic=automatic)
        self.consumers = {
            str(n): consumer(str(n), settled=True, movable=n not in pinned) for n in range(count)
        }

    def take(self, done: RotationStep) -> None:
        """Carries out a step; repeating it from the same state changes nothing."""
        again = advance_rotation(self.rotation, self.all, self.now)
        assert again == advance_rotation(self.rotation, self.all, self.now)
        for id in done.move:
            assert self.consumers[id].movable and self.consumers[id].version == OLD
            changed = replace(self.consumers[id], version=NEW, settled=False, failed=False)
            self.consumers[id] = changed
        if done.revoke:
            assert not any(one.version == OLD for one in self.all)
            assert all(one.settled for one in self.all) or not self.rotation.plan.automatic
            self.revoked = True
        self.rotation = done.rotation
        if self.rotation.phase is RotationPhase.ABORTED:
            for id, one in self.consumers.items():
                self.consumers[id] = replace(one, version=OLD)

    @property
    def all(self) -> list[SecretConsumer]:
        return list(self.consumers.values())

    @rule(seconds=st.integers(0, 100))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.take(advance_rotation(self.rotation, self.all, self.now))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), healthy=st.booleans())
    def an_agent_reports(self, data: st.DataObject, healthy: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.consumers)))
        self.consumers[id] = replace(self.consumers[id], settled=healthy, failed=not healthy)
        self.take(advance_rotation(self.rotation, self.all, self.now))

    @rule(number=st.integers(6, 9), version=st.sampled_from([OLD, NEW]))
    def somebody_joins(self, number: int, version: int) -> None:
        if self.revoked:
            version = NEW
        self.consumers[str(number)] = consumer(str(number), version)

    @rule(decision=st.sampled_from(list(RotationDecision)))
    def a_person_decides(self, decision: RotationDecision) -> None:
        try:
            done = apply_decision(self.rotation, decision, self.all, self.now)
        except Conflict:
            return
        self.take(done)

    @invariant()
    def at_most_a_batch_is_under_way_while_the_old_one_is_good(self) -> None:
        if not hasattr(self, "rotation"):
            return
        own = [one for id, one in self.consumers.items() if int(id) < 6]
        new = [one for one in own if one.version == NEW and not one.settled and not one.failed]
        if self.rotation.phase is RotationPhase.ROLLING and not self.revoked:
            # Those that settled once may waver again; what was just moved is within the batch.
            assert (
                len(advance_rotation(self.rotation, self.all, self.now).move)
                <= self.rotation.plan.batch
            )
        if self.revoked:
            assert self.rotation.phase is RotationPhase.REVOKED
            assert not any(one.version == OLD for one in own)
        assert len(new) <= len(own)


TestRotating = Rotating.TestCase
TestRotating.settings = settings(max_examples=40)
