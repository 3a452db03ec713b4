"""The engine under random events, against a model that remembers only what a person would."""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controlplane.pipelines.engine.effects import Effect, OpenGate, Promote, RenderStage, RunCheck
from controlplane.pipelines.engine.events import (
    Aborted,
    Approved,
    ApproversLeft,
    BaseMoved,
    Budgeted,
    Changed,
    ChangeHinted,
    CheckAnswered,
    CheckStarted,
    ClustersSilent,
    DenialRemoved,
    Event,
    Frozen,
    Paused,
    PromotionFailed,
    ReleaseRejected,
    Resumed,
    Retried,
    RevisionDenied,
    ServicesHealth,
    Skipped,
    StageObserved,
    StageRendered,
    StageRenderFailed,
    VerificationFailed,
)
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    HttpRule,
    SoakRule,
    WaitRule,
    WorkflowRule,
)
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import Step
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite
from controlplane.pipelines.model.pipeline import (
    Gate,
    GateId,
    Pipeline,
    Stage,
    StageEdge,
    StageId,
    validate,
)
from controlplane.pipelines.model.rollout import BudgetRoom, Progress, Rollout
from controlplane.pipelines.model.state import (
    HISTORY_LENGTH,
    Digests,
    GateStatus,
    GitChangeState,
    GitWriteStatus,
    Health,
    PipelineState,
    ReleaseId,
    RevisionRef,
    StageState,
    digests_of,
)
from core.identity import ServiceId
from tests.fakes.pipelines import Line, make_pipeline, two_stages

DEADLINE = 5
HTTP_LATER = WorkflowRule(
    (
        Step("first", HttpRule("https://b.example.org")),
        Step("then", WaitRule(4), ("first",)),
    )
)
OWN = WorkflowRule((Step("look", HttpRule("https://c.example.org")),))
SHAPES = (
    {"dev prod": [ApprovalRule()]},
    {"dev test": [SoakRule(10)], "test prod": [ApprovalRule(2), SoakRule(5)]},
    {"dev eu": [], "dev us": [ApprovalRule()], "eu prod": [SoakRule(3)], "us prod": []},
    {"a b": [], "b c": [], "c d": [ApprovalRule(1, False)]},
    {"dev test": [HttpRule("https://a.example.org"), ApprovalRule()], "test prod": [HTTP_LATER]},
)
CONTENTS = st.sampled_from(("c1", "c2", "c3", "c4"))
PEOPLE = st.sampled_from(("ann", "bob", "eve"))
HEALTH = (Health.HEALTHY, Health.FAILED)
HEALTHS = st.sampled_from((*Health, Health.HEALTHY, Health.HEALTHY))
DIGESTS = st.dictionaries(st.builds(ServiceId, st.text(max_size=3)), st.text(max_size=3))


WRITE = GitWrite((FileChange(FileKind.IMAGE, "d.yaml", image="shop"),))


def promoted_by_git(pipeline: Pipeline) -> Pipeline:
    """The same with all stages behind the first promoted by git."""
    first, *rest = pipeline.order
    return validate(replace(pipeline, stages=(first, *(replace(s, git=WRITE) for s in rest))))


def with_workflows(pipeline: Pipeline) -> Pipeline:
    """The same with a check of their own in the first stage and in the last."""
    ends = {pipeline.order[0].id, pipeline.order[-1].id}
    stages = tuple(
        replace(one, workflow=Gate(GateId(f"own {one.id}"), "own", OWN)) if one.id in ends else one
        for one in pipeline.stages
    )
    return validate(replace(pipeline, stages=stages))


def with_deadlines(pipeline: Pipeline) -> Pipeline:
    """The same with a deadline for silent clusters that a walk reaches."""
    rollout = Rollout(silent_deadline_seconds=DEADLINE)
    stages = tuple(replace(one, rollout=rollout) for one in pipeline.stages)
    return validate(replace(pipeline, stages=stages))


class Person:
    """Remembers yes, no and healthy, independently of the engine's own records."""

    def __init__(self) -> None:
        self.yes: dict[tuple[GateId, ReleaseId], dict[str, dict]] = defaultdict(dict)
        self.refused: set[tuple[StageId, ReleaseId]] = set()
        self.bad: set[str] = set()
        self.was_healthy: dict[StageId, Digests | None] = {}
        self.healthy_since: dict[StageId, datetime] = {}
        self.passed: set[tuple[GateId, ReleaseId, tuple]] = set()
        self.skipped: set[tuple[GateId, ReleaseId]] = set()
        self.proved: set[tuple[GateId, tuple]] = set()
        self.silent: set[ServiceId] = set()
        self.reported: dict[StageId, dict[ServiceId, Health]] = defaultdict(dict)
        self.begun: dict[StageId, tuple[Digests, datetime]] = {}


class Walk(RuleBasedStateMachine):
    """Any pipeline, any order of events: what must never happen, does not."""

    @initialize(
        shape=st.sampled_from(SHAPES),
        services=st.integers(1, 3),
        by_git=st.booleans(),
        works=st.booleans(),
    )
    def start(self, shape: dict, services: int, by_git: bool, works: bool) -> None:
        pipeline = make_pipeline(shape, services=services)
        pipeline = with_workflows(pipeline) if works else pipeline
        pipeline = with_deadlines(pipeline)
        self.line = Line(promoted_by_git(pipeline) if by_git else pipeline)
        self.person = Person()

    @property
    def pipeline(self) -> Pipeline:
        return self.line.pipeline

    @rule(content=CONTENTS, health=HEALTHS)
    def a_commit_comes(self, content: str, health: Health) -> None:
        self.git_moves(content, health)

    def git_moves(self, content: str, health: Health) -> None:
        stage = self.pipeline.first
        revisions = self.line.revisions(stage.id, content, content)
        self.take(StageObserved(stage.id, revisions, health, "ann"))

    @precondition(lambda self: self.line.state.candidates)
    @rule(data=st.data(), variant=st.sampled_from(("", "", "", "other")))
    def render_arrives(self, data: st.DataObject, variant: str) -> None:
        self.answer_render(*self.pick_waiting(data), variant)

    @rule(data=st.data(), health=HEALTHS)
    def stage_reports(self, data: st.DataObject, health: Health) -> None:
        stage, release = self.pick_stage(data)
        self.take(self.line.health_report(stage, release, health))

    @precondition(lambda self: self.pipeline.gate)
    @rule(data=st.data(), actor=PEOPLE, careful=st.sampled_from((True, True, False)))
    def somebody_approves(self, data: st.DataObject, actor: str, careful: bool) -> None:
        gate = data.draw(st.sampled_from(sorted(self.pipeline.gate)))
        digests: Digests = self.line.digests_at(gate) if careful else data.draw(DIGESTS)
        self.take(Approved(gate, actor, actor == "ann", digests))

    @rule(data=st.data(), actor=PEOPLE)
    def somebody_retries(self, data: st.DataObject, actor: str) -> None:
        self.take(Retried(*self.pick_stage(data), actor))

    @rule(data=st.data())
    def somebody_says_no(self, data: st.DataObject) -> None:
        gates = [ReleaseRejected(gate, "eve") for gate in sorted(self.pipeline.gate)]
        broken = [
            StageRenderFailed(edge.target, self.line.state.candidates[edge.id].release, "no kind")
            for edge in self.pipeline.edges
            if edge.id in self.line.state.candidates
        ]
        everything = [RevisionDenied("c1", "eve"), RevisionDenied("c2", "eve"), Paused("eve")]
        self.take(data.draw(st.sampled_from([*gates, *broken, *everything])))

    @rule(
        data=st.data(),
        answer=st.sampled_from((CheckAnswer.PASSED, CheckAnswer.PASSED, *CheckAnswer)),
    )
    def a_check_is_answered(self, data: st.DataObject, answer: CheckAnswer) -> None:
        asked = [one for one in self.line.effects if isinstance(one, RunCheck)][-6:]
        if asked:
            self.answer_check(data.draw(st.sampled_from(asked)), answer)

    @rule(data=st.data())
    def a_check_runs_as_a_job(self, data: st.DataObject) -> None:
        asked = [one for one in self.line.effects if isinstance(one, RunCheck)][-6:]
        if asked:
            one = data.draw(st.sampled_from(asked))
            self.take(CheckStarted(one.gate, one.step, one.attempt_key, "job"))

    @rule(data=st.data(), actor=PEOPLE)
    def somebody_leaves(self, data: st.DataObject, actor: str) -> None:
        for yes in self.person.yes.values():
            yes.pop(actor, None)
        self.take(ApproversLeft((actor,)))

    @rule(data=st.data(), what=st.sampled_from((PromotionFailed, VerificationFailed, *HEALTH)))
    def services_tell(self, data: st.DataObject, what: type | Health) -> None:
        """Health of a whole stage, or of one service that lacks the release."""
        stage, release = self.pick_stage(data)
        services = self.pipeline.stage[stage].services
        if isinstance(what, Health):
            return self.take(ServicesHealth(stage, release, dict.fromkeys(services, what)))
        if what is PromotionFailed:
            return self.take(PromotionFailed(stage, release, "no kind"))
        return self.take(VerificationFailed(stage, release, services[0], "restarts"))

    def answer_check(self, asked: RunCheck, answer: CheckAnswer) -> None:
        if answer is CheckAnswer.PASSED:
            digests = tuple(sorted(asked.digests.items()))
            self.person.passed.add((asked.gate, asked.release, digests))
            self.person.proved.add((asked.gate, digests))
        self.take(CheckAnswered(asked.gate, asked.step, asked.attempt_key, answer, "as told"))

    @rule(data=st.data(), what=st.sampled_from((*GitChangeState, BaseMoved, ChangeHinted)))
    def git_tells(self, data: st.DataObject, what: GitChangeState | type) -> None:
        stage, release = self.pick_stage(data)
        if what is ChangeHinted:
            return self.take(ChangeHinted("repository"))
        if what is BaseMoved:
            return self.take(BaseMoved(stage, release, "moved"))
        state = GitChangeState(what)
        return self.take(
            Changed(stage, release, GitWriteStatus(state, "repository", "main", "landed", 7))
        )

    @rule(data=st.data(), what=st.sampled_from((Frozen, Budgeted, Budgeted)))
    def somebody_holds_clusters(self, data: st.DataObject, what: type) -> None:
        services = sorted(s for stage in self.pipeline.stages for s in stage.services)
        some = data.draw(st.lists(st.sampled_from(services), unique=True))
        if what is Frozen:
            return self.take(Frozen(dict.fromkeys(some, "sale")))
        return self.take(Budgeted(BudgetRoom(tuple(some), "full") if some else None))

    @rule(data=st.data())
    def agents_fall_silent_or_return(self, data: st.DataObject) -> None:
        services = sorted(s for stage in self.pipeline.stages for s in stage.services)
        silent = data.draw(st.lists(st.sampled_from(services), unique=True))
        self.take(ClustersSilent({service: f"{service} (never seen)" for service in silent}))

    @rule(data=st.data(), others=st.sampled_from(HEALTH))
    def silent_agents_tell_nothing_new(self, data: st.DataObject, others: Health) -> None:
        stage, release = self.pick_stage(data)
        self.all_tell_but_silent_ones(stage, release, others)

    @rule(content=CONTENTS, number=st.integers(0, 2), late=st.booleans())
    def a_commit_comes_to_silent_clusters(self, content: str, number: int, late: bool) -> None:
        """One service of each stage is silent; the deadline passes, or almost."""
        silent = [s for stage in self.pipeline.stages for s in stage.services[number : number + 1]]
        self.git_moves(content, Health.PROGRESSING)
        self.take(ClustersSilent({service: f"{service} (never seen)" for service in silent}))
        for _ in self.pipeline.stages:
            self.things_go_well(healthy=False, approvers=2)
            self.time_passes(DEADLINE - (not late))
            for stage in self.pipeline.stages:
                release = self.line.stage(stage.id).release or ReleaseId("unheard-of")
                self.all_tell_but_silent_ones(stage.id, release, Health.HEALTHY)

    def all_tell_but_silent_ones(self, stage: StageId, release: ReleaseId, others: Health) -> None:
        services = self.pipeline.stage[stage].services
        if stage == self.pipeline.first.id:
            held = self.line.stage(stage).revisions
            silent = tuple(one for one in services if one in self.person.silent)
            health = Health.PROGRESSING if silent and others is Health.HEALTHY else others
            return self.take(StageObserved(stage, held, health, "ann", "slow", silent))
        healths = {
            one: Health.PROGRESSING if one in self.person.silent else others for one in services
        }
        return self.take(ServicesHealth(stage, release, healths))

    @precondition(lambda self: self.pipeline.all_gates)
    @rule(data=st.data(), abort=st.booleans())
    def somebody_overrides(self, data: st.DataObject, abort: bool) -> None:
        stage, release = self.pick_stage(data)
        if abort:
            return self.take(Aborted(stage, release, "eve"))
        gate = data.draw(st.sampled_from(sorted(one.id for _, one in self.pipeline.all_gates)))
        self.take(Skipped(gate, release, "eve", "fire"))

    @rule()
    def all_is_forgiven(self) -> None:
        for event in (DenialRemoved("c1", "eve"), DenialRemoved("c2", "eve"), Resumed("eve")):
            self.take(event)
        for event in (Frozen({}), Budgeted(None), ClustersSilent({})):
            self.take(event)

    @rule(content=CONTENTS)
    def a_commit_comes_and_is_well(self, content: str) -> None:
        self.git_moves(content, Health.HEALTHY)
        self.things_go_well(healthy=True, approvers=2)

    @rule(healthy=st.booleans(), approvers=st.integers(0, 2))
    def the_rest_goes_well(self, healthy: bool, approvers: int) -> None:
        self.things_go_well(healthy=healthy, approvers=approvers)

    def things_go_well(self, *, healthy: bool, approvers: int) -> None:
        for edge in self.pipeline.edges:
            waiting = self.line.candidate(edge.id)
            if waiting is not None and waiting.release not in self.line.stage(edge.target).rendered:
                self.answer_render(edge, waiting.release, "")
        for gate in sorted(self.pipeline.gate):
            for actor in ("bob", "eve")[:approvers]:
                self.take(Approved(gate, actor, False, self.line.digests_at(gate)))
        for asked in [one for one in self.line.effects if isinstance(one, RunCheck)][-3:]:
            self.answer_check(asked, CheckAnswer.PASSED)
        for stage in self.pipeline.stages if healthy else ():
            release = self.line.stage(stage.id).release or ReleaseId("unheard-of")
            self.take(self.line.health_report(stage.id, release, Health.HEALTHY))

    @rule(seconds=st.integers(-2, 8))
    def time_passes(self, seconds: int) -> None:
        before = self.line.state
        self.line.pass_time(seconds)
        self.check_all(before, self.line.last)

    @precondition(lambda self: self.line.log)
    @rule(data=st.data())
    def an_old_event_arrives_again(self, data: st.DataObject) -> None:
        event, _ = data.draw(st.sampled_from(self.line.log))
        self.take(event)

    def answer_render(self, edge: StageEdge, release: ReleaseId, variant: str) -> None:
        commit = next(iter(self.line.state.releases[release].commits.values()))
        digest = f"{edge.target} {variant or release}"
        revisions = self.line.revisions(edge.target, commit, digest)
        self.take(StageRendered(edge.target, release, revisions))

    def pick_waiting(self, data: st.DataObject) -> tuple[StageEdge, ReleaseId]:
        waiting = [one for one in self.pipeline.edges if one.id in self.line.state.candidates]
        edge = data.draw(st.sampled_from(waiting))
        return edge, self.line.state.candidates[edge.id].release

    def pick_stage(self, data: st.DataObject) -> tuple[StageId, ReleaseId]:
        stage = data.draw(st.sampled_from(self.pipeline.stages)).id
        known = [*sorted(self.line.state.releases), ReleaseId("unheard-of")]
        held = self.line.stage(stage).release
        return stage, data.draw(st.sampled_from([*known, held or known[0]]))

    def take(self, event: Event) -> None:
        before = self.line.state
        self.remember(event)
        effects = self.line.send(event)
        self.check_all(before, effects)

    def remember(self, event: Event) -> None:
        """Records what the event and the screen alone would show a person."""
        self.remember_agents(event)
        match event:
            case Approved(gate, actor, is_author, digests):
                self.remember_yes(gate, actor, is_author, dict(digests))
            case ReleaseRejected(gate):
                edge, _ = self.pipeline.gate[gate]
                if edge.id in self.line.state.candidates:
                    self.person.refused.add(
                        (edge.target, self.line.state.candidates[edge.id].release)
                    )
            case StageRendered(stage, release, revisions):
                self.forget_other_yes(stage, release, dict(digests_of(revisions)))
            case StageRenderFailed(stage, release):
                self.forget_other_yes(stage, release, {})
            case Skipped(gate, release):
                self.person.skipped.add((gate, release))
                self.person.proved.add((gate, tuple(sorted(self.line.digests_at(gate).items()))))
            case Retried(stage, release):
                self.person.refused.discard((stage, release))
            case RevisionDenied(revision):
                self.person.bad.add(revision)
            case DenialRemoved(revision):
                self.person.bad.discard(revision)

    def remember_agents(self, event: Event) -> None:
        match event:
            case ClustersSilent(services):
                self.person.silent = set(services)
            case ServicesHealth(stage, release, healths):
                if release == self.line.stage(stage).release:
                    self.person.reported[stage] = dict(healths)

    def remember_yes(self, gate: GateId, actor: str, is_author: bool, digests: dict) -> None:
        edge, found = self.pipeline.gate[gate]
        candidate = self.line.state.candidates.get(edge.id)
        honest = isinstance(found.rule, ApprovalRule) and not (is_author and found.rule.not_author)
        # A yes to something else changes nothing, also if it arrives again after the right one.
        if candidate is not None and honest and digests == self.line.digests_at(gate):
            self.person.yes[gate, candidate.release][actor] = digests

    def forget_other_yes(self, stage: StageId, release: ReleaseId, digests: dict) -> None:
        for (gate, about), yes in self.person.yes.items():
            if about == release and self.pipeline.gate[gate][0].target == stage:
                for actor in [one for one, seen in yes.items() if seen != digests]:
                    del yes[actor]

    def check_all(self, before: PipelineState, effects: tuple[Effect, ...]) -> None:
        self.follow_health()
        self.check_workflows()
        for stage in self.pipeline.stages:
            self.check_silence(before.stages.get(stage.id, StageState()), stage)
        for stage in self.pipeline.order[1:]:
            self.check_entry(before.stages.get(stage.id, StageState()), stage)
        for effect in effects:
            if isinstance(effect, Promote):
                self.check_promotion(before, effect)
            if isinstance(effect, OpenGate):
                edge, _ = self.pipeline.gate[effect.gate]
                self.check_source(edge, effect.release)

    def follow_health(self) -> None:
        for stage in self.pipeline.stages:
            held = self.line.stage(stage.id)
            content = digests_of(held.revisions) if held.health == Health.HEALTHY else None
            if content is None or self.person.was_healthy.get(stage.id) != content:
                self.person.healthy_since[stage.id] = self.line.now
            self.person.was_healthy[stage.id] = content

    def check_workflows(self) -> None:
        """A stage with steps of its own is healthy only with what these have let pass."""
        for stage, gate in self.pipeline.workflow.values():
            held = self.line.stage(stage.id)
            if held.health is Health.HEALTHY:
                content = tuple(sorted(digests_of(held.revisions).items()))
                assert (gate.id, content) in self.person.proved, "healthy without its steps"

    def check_silence(self, held: StageState, stage: Stage) -> None:
        """Only silent ones are left out, late, never too many, and until they are well or fail."""
        now, content = self.line.stage(stage.id), digests_of(self.line.stage(stage.id).revisions)
        known, since = self.person.begun.get(stage.id, ({}, self.line.now))
        # Clocks of replicas differ: time may go back after the content has come.
        begun = min(since, self.line.now) if known == content else self.line.now
        self.person.begun[stage.id] = (content, begun)
        out, reported = set(now.silence.left_out), self.person.reported[stage.id]
        new = out - set(held.silence.left_out)
        assert new <= self.person.silent, "left out though it is heard"
        if new:
            waited = self.line.now - begun
            assert waited >= timedelta(seconds=DEADLINE), "left out before the deadline"
        assert len(out) * 2 <= len(content), "more left out than half of the stage"
        if stage is self.pipeline.first or not content:
            return
        marked = {one for one, how in now.progress.items() if how is Progress.LEFT_OUT}
        assert marked == out, "two opinions about who is left out"
        assert not any(reported.get(one) in HEALTH for one in out), "left out though it reported"
        if now.health is Health.HEALTHY and held.health is not Health.HEALTHY:
            missing = {one for one in content if reported.get(one) is not Health.HEALTHY}
            assert missing <= out, "healthy without somebody who was heard"

    def check_source(self, edge: StageEdge, release: ReleaseId) -> None:
        source = self.line.stage(edge.source)
        assert (source.release, source.health) == (release, Health.HEALTHY)

    def check_promotion(self, before: PipelineState, effect: Promote) -> None:
        held = before.stages.get(effect.stage, StageState())
        if effect.back:
            # What its agents have gone back to already; who gives it refuses what is known bad.
            return self.check_back(held, effect)
        contents = {name for one in effect.revisions.values() for name in (one.commit, one.digest)}
        assert self.line.state.paused is None, "nothing moves while paused"
        assert not contents & self.person.bad, "a known-bad revision moves"
        self.check_places(held, effect)
        if held.release == effect.release:
            again = set(effect.revisions) & set(held.progress)
            assert not again or held.health is Health.FAILED, "given to somebody twice"
        else:
            assert not held.promoting or self.has_ended(effect.stage, held), "two in one stage"

    def check_back(self, held: StageState, effect: Promote) -> None:
        """Only to what the stage was good with, and only when an agent has said so."""
        assert isinstance(self.line.log[-1][0], VerificationFailed), "back without a reason"
        assert effect.release == held.good_release, "back to what was never good"

    def check_places(self, held: StageState, effect: Promote) -> None:
        """Nobody outside the stage, nobody frozen, nobody beyond the budgets."""
        given, state = set(effect.revisions), self.line.state
        assert given <= set(self.pipeline.stage[effect.stage].services)
        if digests_of(held.revisions) != digests_of(effect.revisions):
            assert not given & set(state.frozen), "a frozen cluster changes"
            assert state.room is None or given <= set(state.room.free), "beyond a budget"

    def check_entry(self, held: StageState, stage: Stage) -> None:
        """Whatever a stage has begun to take in, it was to take in."""
        now = self.line.stage(stage.id)
        back = isinstance(self.line.log[-1][0], BaseMoved | VerificationFailed)
        if now.release in (None, held.release) or back:
            return
        assert now.release is not None
        assert (stage.id, now.release) not in self.person.refused, "a refused one moves"
        self.check_forward(held.release, now.release)
        for edge in self.pipeline.edges_into[stage.id]:
            self.check_source(edge, now.release)
            if digests_of(held.revisions) != digests_of(now.revisions):
                for gate in edge.gates:
                    self.check_gate(edge, gate, now.release, digests_of(now.revisions))

    def has_ended(self, stage: StageId, held: StageState) -> bool:
        """The last event itself says that the stage is done with what it was taking in.

        Or its own steps have passed, and the event lets it go on.
        """
        own, content = self.pipeline.stage[stage].workflow, digests_of(held.revisions)
        if own is not None and (own.id, tuple(sorted(content.items()))) in self.person.proved:
            return True
        match self.line.log[-1][0]:
            case ServicesHealth(about, release):
                return (about, release) == (stage, held.release)
            case PromotionFailed(about, release) | VerificationFailed(about, release):
                return (about, release) == (stage, held.release)
            case Aborted(about, release) | BaseMoved(about, release):
                return (about, release) == (stage, held.release)
        return False

    def check_forward(self, held: ReleaseId | None, release: ReleaseId) -> None:
        if held is not None:
            number = self.line.state.releases[release].number
            assert number > int(held.removeprefix("r").partition("-")[0]), "never backwards"

    def check_gate(self, edge: StageEdge, gate: Gate, release: ReleaseId, digests: Digests) -> None:
        if (gate.id, release) in self.person.skipped:
            return
        match gate.rule:
            case HttpRule() | WorkflowRule():
                asked = (gate.id, release, tuple(sorted(digests.items())))
                assert asked in self.person.passed, "promoted without an answer"
            case ApprovalRule(quorum=quorum):
                given = self.person.yes[gate.id, release].values()
                assert sum(one == digests for one in given) >= quorum, "promoted without a yes"
            case SoakRule(soak_seconds=seconds):
                soaked = self.line.now - self.person.healthy_since[edge.source]
                assert soaked >= timedelta(seconds=seconds), "promoted before it has soaked"

    @invariant()
    def what_is_kept_is_bounded_and_consistent(self) -> None:
        if not hasattr(self, "line"):
            return
        state = self.line.state
        in_use = {one.release for one in (*state.stages.values(), *state.candidates.values())}
        in_use |= {one.good_release for one in state.stages.values()}
        assert set(state.releases) == in_use - {None}
        assert len(state.history) <= HISTORY_LENGTH
        for edge in self.pipeline.edges:
            waiting = state.candidates.get(edge.id)
            if waiting is not None:
                assert waiting.release == self.line.stage(edge.source).release
                assert waiting.reason, "a waiting release without a reason"

    def teardown(self) -> None:
        if hasattr(self, "line"):
            assert self.line.replay() == (self.line.state, self.line.effects)
            keys = defaultdict(set)
            for effect in self.line.effects:
                if isinstance(effect, Promote | RenderStage | RunCheck):
                    keys[effect.key].add(repr(effect))
            assert all(len(one) == 1 for one in keys.values()), "one key, two meanings"


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    before=st.text(min_size=1, max_size=20),
    after=st.text(min_size=1, max_size=20),
    healthy_first=st.booleans(),
)
def test_any_change_after_approval_voids_it(before: str, after: str, healthy_first: bool) -> None:
    line = Line(two_stages(ApprovalRule(), SoakRule(60)))
    release = line.observe("c1", Health.HEALTHY if healthy_first else Health.PROGRESSING)
    service = ServiceId("prod-0")
    for digest in (before, after):
        line.send(StageRendered(StageId("prod"), release, {service: RevisionRef("c1", digest)}))
        if digest is before:
            line.approve("dev prod 0")
    line.health("dev")
    line.pass_time(600)
    expected = [("prod", release)] if before == after else []
    assert line.promotions() == expected
    if before != after:
        candidate = line.candidate("dev prod")
        assert candidate is not None
        gate = candidate.gates[GateId("dev prod 0")]
        assert (gate.status, gate.approvals) == (GateStatus.RUNNING, ())
