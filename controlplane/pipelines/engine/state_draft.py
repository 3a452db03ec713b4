"""A state during one step of the engine, with the effects of the step so far."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from controlplane.pipelines.engine.effects import Effect, EventIgnored, Notify, Topic, WakeAt
from controlplane.pipelines.model.pipeline import EdgeId, Pipeline, Stage, StageEdge, StageId
from controlplane.pipelines.model.state import (
    HISTORY_LENGTH,
    KNOWN_BAD_LENGTH,
    TEXT_LENGTH,
    HistoryEntry,
    PipelineState,
    ReleaseId,
    RevisionRef,
    Revisions,
    StageState,
    WaitingRelease,
)
from core.errors import Conflict


class NotApplicable(Conflict):
    """The event does not apply to the state; its message is the text of `EventIgnored`."""


class StateDraft:
    """Working copy of a state for one step, without parts that the pipeline no longer has."""

    def __init__(self, pipeline: Pipeline, state: PipelineState, now: datetime) -> None:
        self.pipeline = pipeline
        self.now = now
        self.number = state.number
        self.paused = state.paused
        self.releases = dict(state.releases)
        self.known_bad = dict(state.known_bad)
        self.frozen = dict(state.frozen)
        self.silent = dict(state.silent)
        self.room = state.room
        self.unreleased = state.seen
        self.calls = state.calls
        trigger_ids = {trigger.id for trigger in pipeline.triggers}
        self.triggers = {k: v for k, v in state.triggers.items() if k in trigger_ids}
        edges = {edge.id for edge in pipeline.edges}
        self.candidates = {k: v for k, v in state.candidates.items() if k in edges}
        self.stages = {k: v for k, v in state.stages.items() if k in pipeline.stage}
        self._history = list(state.history)
        self._effects: dict[str, Effect] = {}
        self._wakes: list[datetime] = []

    def stage(self, stage: StageId) -> StageState:
        """Returns the state of a stage."""
        return self.stages.get(stage) or StageState()

    def occupied_stage(self, stage: StageId, release: ReleaseId) -> StageState:
        """Returns the state of a stage that holds this release, or raises NotApplicable."""
        state = self.stage(stage)
        if state.release != release:
            raise NotApplicable(f"the stage does not hold release {release}")
        return state

    def promoting_stage(self, stage: StageId, release: ReleaseId) -> StageState:
        """Returns the state of a stage that rolls this release out, or raises NotApplicable."""
        state = self.stage(stage)
        if state.release != release or not state.promoting:
            raise NotApplicable(f"the stage is not rolling out {release}")
        return state

    def change_stage(self, stage: StageId, **changes: object) -> None:
        self.stages[stage] = replace(self.stage(stage), **changes)

    def change_candidate(self, edge: EdgeId, **changes: object) -> None:
        self.candidates[edge] = replace(self.candidates[edge], **changes)

    def waiting_edges(
        self, stage: StageId, release: ReleaseId
    ) -> list[tuple[StageEdge, WaitingRelease]]:
        """Returns the edges into a stage before which the release waits."""
        return [
            (edge, self.candidates[edge.id])
            for edge in self.pipeline.edges_into.get(stage, ())
            if edge.id in self.candidates and self.candidates[edge.id].release == release
        ]

    def render_of(self, stage: StageId, release: ReleaseId) -> Revisions | None:
        """Returns the revisions that services would run with a waiting release, once known."""
        revisions = self.stage(stage).rendered.get(release)
        return revisions if revisions is not None and self.covers(stage, revisions) else None

    def covers(self, stage: StageId, revisions: Revisions) -> bool:
        """Returns whether there is a revision for exactly the services of the stage."""
        return set(revisions) == set(self.pipeline.stage[stage].services)

    def denied_reason(self, revisions: Iterable[RevisionRef]) -> str | None:
        """Returns the reason if one of the revisions is denied."""
        for revision in revisions:
            for name in (revision.commit, revision.digest):
                if name in self.known_bad:
                    return f"{name} is denied: {self.known_bad[name]}"
        return None

    def deny_revision(self, revision: str, reason: str) -> None:
        """Denies a commit or digest in all stages; above the limit the oldest denial is dropped."""
        self.known_bad[revision] = clip(reason)
        while len(self.known_bad) > KNOWN_BAD_LENGTH:
            oldest = next(iter(self.known_bad))
            del self.known_bad[oldest]
            # No EventIgnored: the decision that denies the newest revision is not ignored.
            dropped = "was the oldest denied revision; its denial was dropped at the limit"
            self.record("", None, f"{oldest} {dropped}")

    def record(self, place: str, release: ReleaseId | None, text: str, actor: str = "") -> None:
        self._history.append(HistoryEntry(self.now, place, release, clip(text), clip(actor)))

    def emit(self, effect: Effect) -> None:
        self._effects.setdefault(effect.key, effect)

    def notify(self, topic: Topic, place: str, release: ReleaseId, nonce: str, text: str) -> None:
        key = f"notify/{topic}/{place}/{release}/{nonce}"
        self.emit(Notify(key, topic, place, release, clip(text)))

    def announce(self, topic: Topic, stage: Stage, nonce: str, text: str) -> None:
        """Records a change of a stage with a release, and notifies users of it."""
        if (release := self.stage(stage.id).release) is not None:
            self.record(stage.id, release, text)
            self.notify(topic, stage.id, release, nonce, f"{stage.name} {text}")

    def emit_ignored(self, text: str) -> None:
        key = f"noted/{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        self.emit(EventIgnored(key, clip(text)))

    def wake_at(self, at: datetime) -> None:
        self._wakes.append(at)

    def finish(self) -> tuple[PipelineState, tuple[Effect, ...]]:
        """Returns the new state and the effects; drops everything unreferenced."""
        if self._wakes:
            at = min(self._wakes)
            self.emit(WakeAt(f"wake/{at.isoformat()}", at))
        for id, stage in self.stages.items():
            renders = {k: v for k, v in stage.rendered.items() if self.waiting_edges(id, k)}
            self.stages[id] = replace(stage, rendered=renders)
        in_use: set[ReleaseId | None] = {
            candidate.release for candidate in self.candidates.values()
        }
        for stage in self.stages.values():
            in_use |= {id for id in (stage.release, stage.good_release) if id}
        state = PipelineState(
            number=self.number,
            releases={k: v for k, v in self.releases.items() if k in in_use},
            stages=self.stages,
            candidates=self.candidates,
            known_bad=self.known_bad,
            paused=self.paused,
            frozen=self.frozen,
            silent=self.silent,
            room=self.room,
            history=tuple(self._history[-HISTORY_LENGTH:]),
            seen=self.unreleased,
            triggers=self.triggers,
            calls=self.calls,
        )
        return state, tuple(self._effects.values())


def clip(text: str) -> str:
    """Returns the text, truncated to the limit."""
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"
