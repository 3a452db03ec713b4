"""Pipelines to test with, and a driver that feeds the engine and checks what must always hold."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.pipelines.engine.codec import state_from_json, state_to_json
from controlplane.pipelines.engine.effects import (
    Effect,
    EventIgnored,
    OpenGate,
    Promote,
    RenderStage,
)
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.events import (
    Approved,
    Event,
    ServicesHealth,
    StageObserved,
    StageRendered,
    Tick,
)
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.pipeline import (
    EdgeId,
    Gate,
    GateId,
    Pipeline,
    Stage,
    StageEdge,
    StageId,
    validate,
)
from controlplane.pipelines.model.state import (
    Health,
    PipelineState,
    ReleaseId,
    RevisionRef,
    Revisions,
    StageState,
    WaitingRelease,
    digests_of,
)
from core.identity import ServiceId

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_pipeline(edges: Mapping[str, Iterable[GateRule]], *, services: int = 1) -> Pipeline:
    """A valid pipeline from edges such as `{"dev prod": [ApprovalRule()]}`.

    A stage `dev` has services `dev-0`, …; an edge `dev prod` has gates `dev prod 0`, ….
    """
    names = dict.fromkeys(name for edge in edges for name in edge.split())
    stages = tuple(
        Stage(StageId(name), name, tuple(ServiceId(f"{name}-{n}") for n in range(services)))
        for name in names
    )
    return validate(Pipeline("p", "shop", stages, tuple(_edge(k, v) for k, v in edges.items())))


def _edge(name: str, rules: Iterable[GateRule]) -> StageEdge:
    source, target = name.split()
    gates = tuple(
        Gate(GateId(f"{name} {number}"), f"gate {number}", rule)
        for number, rule in enumerate(rules)
    )
    return StageEdge(EdgeId(name), StageId(source), StageId(target), gates)


def two_stages(*rules: GateRule) -> Pipeline:
    """dev → prod with these gates, one approval by default."""
    return make_pipeline({"dev prod": rules or (ApprovalRule(),)})


class Line:
    """A pipeline in motion. Every event is also replayed, repeated and taken after a restart."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.state = PipelineState()
        self.now = START
        self.log: list[tuple[Event, datetime]] = []
        self.effects: list[Effect] = []
        self.last: tuple[Effect, ...] = ()

    def send(self, event: Event) -> tuple[Effect, ...]:
        """Take one event; its effects."""
        before = self.state
        self.state, self.last = step(self.pipeline, before, event, self.now)
        self._check_restart(before, event)
        self._check_repeat(event)
        self.log.append((event, self.now))
        self.effects += self.last
        return self.last

    def replay(self) -> tuple[PipelineState, list[Effect]]:
        """State and effects from the event log alone."""
        state, effects = PipelineState(), []
        for event, at in self.log:
            state, more = step(self.pipeline, state, event, at)
            effects += more
        return state, effects

    def pass_time(self, seconds: float) -> tuple[Effect, ...]:
        self.now += timedelta(seconds=seconds)
        return self.send(Tick())

    def observe(
        self, content: str, health: Health = Health.HEALTHY, author: str = "Ann <ann@example.org>"
    ) -> ReleaseId:
        """The first stage holds this content; the release."""
        stage = self.pipeline.first
        revisions = self.revisions(stage.id, content, f"{stage.id} {content}")
        self.send(StageObserved(stage.id, revisions, health, author))
        release = self.stage(stage.id).release
        assert release is not None
        return release

    def render(self, stage: str, release: ReleaseId, content: str = "") -> tuple[Effect, ...]:
        """Answer a wish for a render; `content` tells one render of a release from another."""
        moving = self.state.releases.get(release)
        commit = next(iter(moving.commits.values())) if moving else "none"
        digest = f"{stage} {commit} {content}"
        return self.send(
            StageRendered(StageId(stage), release, self.revisions(StageId(stage), commit, digest))
        )

    def approve(
        self, gate: str, actor: str = "bob", *, is_author: bool = False, **changes: Any
    ) -> tuple[Effect, ...]:
        """Approve what waits at the gate, or other `digests`."""
        digests = changes.get("digests", self.digests_at(GateId(gate)))
        return self.send(Approved(GateId(gate), actor, is_author, digests))

    def health(self, stage: str, health: Health = Health.HEALTHY) -> tuple[Effect, ...]:
        """The stage is like this with what it holds."""
        release = self.stage(stage).release or ReleaseId("none")
        return self.send(self.health_report(StageId(stage), release, health))

    def health_report(self, stage: StageId, release: ReleaseId, health: Health) -> Event:
        """A report that all services of a stage are like this with a release."""
        services = self.pipeline.stage[stage].services
        reason = "" if health is Health.HEALTHY else "as told"
        if stage == self.pipeline.first.id:
            return StageObserved(stage, self.stage(stage).revisions, health, "ann", reason)
        reasons = dict.fromkeys(services, reason) if reason else {}
        return ServicesHealth(stage, release, dict.fromkeys(services, health), reasons)

    def stage(self, stage: str) -> StageState:
        return self.state.stages.get(StageId(stage), StageState())

    def candidate(self, edge: str) -> WaitingRelease | None:
        return self.state.candidates.get(EdgeId(edge))

    def revisions(self, stage: StageId, commit: str, digest: str) -> Revisions:
        services = self.pipeline.stage[stage].services
        return {one: RevisionRef(commit, f"{digest} {one}") for one in services}

    def digests_at(self, gate: GateId) -> Mapping[ServiceId, str]:
        if gate in self.pipeline.workflow:
            return digests_of(self.stage(self.pipeline.workflow[gate][0].id).revisions)
        edge, _ = self.pipeline.gate[gate]
        waiting = self.state.candidates.get(edge.id)
        if waiting is None:
            return {}
        return digests_of(self.stage(edge.target).rendered.get(waiting.release, {}))

    def promotions(self) -> list[tuple[StageId, ReleaseId]]:
        """All promotions so far, in order."""
        return [(one.stage, one.release) for one in self.effects if isinstance(one, Promote)]

    def notes(self) -> list[str]:
        """Why the last event was ignored, if it was."""
        return [one.text for one in self.last if isinstance(one, EventIgnored)]

    def _check_restart(self, before: PipelineState, event: Event) -> None:
        restored = state_from_json(state_to_json(before))
        assert restored == before
        assert step(self.pipeline, restored, event, self.now) == (self.state, self.last)

    def _check_repeat(self, event: Event) -> None:
        again, effects = step(self.pipeline, self.state, event, self.now)
        assert again == self.state, "the same event twice changes something"
        done = [one for one in effects if isinstance(one, Promote | RenderStage | OpenGate)]
        assert not done, "the same event twice does something twice"
