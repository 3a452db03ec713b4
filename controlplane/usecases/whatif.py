"""Replays of pipelines: the effect of other gates on a past time window."""

from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.domain.access import Actor, Verb, require
from controlplane.domain.pipelines import codec, model
from controlplane.domain.pipelines.replay import RecordedEvents, Replay, replay
from controlplane.domain.promotion import PipelineEvent
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.pipelines import PipelineDraft, Pipelines
from core.errors import Invalid, LimitExceeded

MAX_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """A promotion of a release to a stage: its actual time, and its time in the replay (None:
    never)."""

    stage: str
    release: str
    back: bool
    was: datetime | None
    would: datetime | None


@dataclass(frozen=True, slots=True)
class ReplayWaiting:
    """A release that would still wait before a stage at the end, with the reason."""

    stage: str
    release: str
    reason: str


@dataclass(frozen=True, slots=True)
class PipelineReplay:
    """The actual run and the replay; `begins_at` is the time of the first usable record."""

    begins_at: datetime
    steps: tuple[ReplayStep, ...]
    waiting: tuple[ReplayWaiting, ...]


class PipelineReplays:
    """Replays pipelines from their records."""

    def __init__(self, deps: OperationContext, pipelines: Pipelines) -> None:
        self._context = deps
        self._pipelines = pipelines

    async def run(
        self, actor: Actor, id: str, draft: PipelineDraft, since: datetime, until: datetime
    ) -> PipelineReplay:
        """Replays `[since, until)` with the gates of a draft; stages must keep their names.

        Invalid: nothing was recorded then. LimitExceeded: too many events.
        """
        view = await self._pipelines.get(actor, id)
        require(actor, Verb.READ, view.row.target)
        records = await self._records(id, until)
        begin = _beginning(records, since)
        state = codec.state_from_json(begin.state or {})
        spec = codec.pipeline_from_json(begin.spec or {})
        changed = _with_gates(spec, self._pipelines.gates_of(spec, draft))
        recorded = [
            RecordedEvents(
                record.at, tuple(codec.event_from_json(event) for event in record.events)
            )
            for record in records
            if record.id >= begin.id and record.events
        ]
        if sum(len(entry.events) for entry in recorded) > MAX_EVENTS:
            raise LimitExceeded(f"more than {MAX_EVENTS:,} events: choose a shorter window")
        was = replay(spec, state, recorded, until)
        would = replay(changed, state, recorded, until)
        return PipelineReplay(begin.at, _steps(spec, was, would), _waiting(spec, would))

    async def _records(self, id: str, until: datetime) -> list[PipelineEvent]:
        async with self._context.store.read() as tx:
            rows = await tx.pipeline_events.select(pipeline_id=id)
        return sorted((row for row in rows if row.at < until), key=lambda row: row.id)


def _beginning(records: list[PipelineEvent], since: datetime) -> PipelineEvent:
    """The last record before the window with the pipeline's spec and state, else the first."""
    known = [record for record in records if record.spec is not None and record.state is not None]
    if not known:
        raise Invalid("no events of this pipeline were recorded in that time", field="since")
    before = [record for record in known if record.at <= since]
    return before[-1] if before else known[0]


def _with_gates(spec: model.Pipeline, gates: dict[model.EdgeId, tuple]) -> model.Pipeline:
    edges = tuple(replace(edge, gates=gates.get(edge.id, ())) for edge in spec.edges)
    return model.validate(replace(spec, edges=edges))


def _steps(spec: model.Pipeline, was: Replay, would: Replay) -> tuple[ReplayStep, ...]:
    first = {
        (promotion.stage, promotion.release, promotion.back): promotion.at
        for promotion in was.promotions
    }
    second = {
        (promotion.stage, promotion.release, promotion.back): promotion.at
        for promotion in would.promotions
    }
    return tuple(
        ReplayStep(spec.stage[key[0]].name, key[1], key[2], first.get(key), second.get(key))
        for key in {**first, **second}
    )


def _waiting(spec: model.Pipeline, would: Replay) -> tuple[ReplayWaiting, ...]:
    return tuple(
        ReplayWaiting(spec.stage[edge.target].name, candidate.release, candidate.reason)
        for edge in spec.edges
        if (candidate := would.state.candidates.get(edge.id)) is not None
    )
