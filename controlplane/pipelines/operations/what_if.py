"""Replays of pipelines: the effect of other gates on a past time window."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.authorization import Actor
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine.events import Event
from controlplane.pipelines.engine.replay import Replay, replay
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.records import PipelineEvent
from controlplane.pipelines.operations.drafts import PipelineDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineEventStore
from controlplane.platform.context import OperationContext
from core.errors import Invalid, LimitExceeded

MAX_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Entry of a release into a stage, in reality and in the replay."""

    stage: str
    """Name of the stage."""
    release: str
    """ID of the release."""
    back: bool
    """True if the stage was rolled back to the release."""
    was: datetime | None
    """Time of entry in reality. None if it did not enter in the time range."""
    would: datetime | None
    """Time of entry in the replay. None if it would not enter in the time range."""


@dataclass(frozen=True, slots=True)
class ReplayWaiting:
    """A release that would still wait at the end of the replay."""

    stage: str
    """Name of the stage."""
    release: str
    """ID of the release."""
    reason: str
    """Reason of the wait."""


@dataclass(frozen=True, slots=True)
class PipelineReplay:
    """The actual run and the replay."""

    begins_at: datetime
    """Start of the replay, limited by the recorded history."""
    steps: tuple[ReplayStep, ...]
    """Entries of releases into stages."""
    waiting: tuple[ReplayWaiting, ...]
    """Releases that would still wait."""


class PipelineReplays:
    """Replays pipelines from their records."""

    def __init__(self, context: OperationContext, pipelines: Pipelines) -> None:
        self._context = context
        self._pipelines = pipelines

    async def run(
        self, actor: Actor, id: str, draft: PipelineDraft, since: datetime, until: datetime
    ) -> PipelineReplay:
        """Replays `[since, until)` with the gates of a draft; stages must keep their names.

        Invalid: nothing was recorded then. LimitExceeded: too many events.
        """
        await self._pipelines.get(actor, id)
        records = await self._records(id, until)
        begin = _starting_record(records, since)
        state = codec.state_from_json(begin.state or {})
        spec = codec.pipeline_from_json(begin.spec or {})
        changed = _with_gates(spec, self._pipelines.draft_gates(spec, draft))
        recorded = [
            (record.at, [codec.from_json(event, Event) for event in record.events])
            for record in records
            if record.id >= begin.id
        ]
        if sum(len(events) for _, events in recorded) > MAX_EVENTS:
            raise LimitExceeded(f"more than {MAX_EVENTS:,} events: choose a shorter window")
        actual = replay(spec, state, recorded, until)
        hypothetical = replay(changed, state, recorded, until)
        return PipelineReplay(
            begin.at,
            _replay_steps(spec, actual, hypothetical),
            _waiting_releases(spec, hypothetical),
        )

    async def _records(self, id: str, until: datetime) -> list[PipelineEvent]:
        async with self._context.store.read() as tx:
            rows = await tx[PipelineEventStore].of_pipeline(id)
        return sorted((row for row in rows if row.at < until), key=lambda row: row.id)


def _starting_record(records: list[PipelineEvent], since: datetime) -> PipelineEvent:
    """The last record before the window with the pipeline's spec and state, else the first."""
    snapshots = [
        record for record in records if record.spec is not None and record.state is not None
    ]
    if not snapshots:
        raise Invalid("no events of this pipeline were recorded in that time", field="since")
    earlier = [record for record in snapshots if record.at <= since]
    return earlier[-1] if earlier else snapshots[0]


def _with_gates(
    spec: pipeline.Pipeline, gates: Mapping[pipeline.EdgeId, tuple[pipeline.Gate, ...]]
) -> pipeline.Pipeline:
    edges = tuple(replace(edge, gates=gates.get(edge.id, ())) for edge in spec.edges)
    return pipeline.validate(replace(spec, edges=edges))


def _replay_steps(
    spec: pipeline.Pipeline, actual: Replay, hypothetical: Replay
) -> tuple[ReplayStep, ...]:
    actual_times, hypothetical_times = actual.promotions, hypothetical.promotions
    return tuple(
        ReplayStep(
            spec.stage[promotion.stage].name,
            promotion.release,
            promotion.back,
            actual_times.get(promotion),
            hypothetical_times.get(promotion),
        )
        for promotion in actual_times | hypothetical_times
    )


def _waiting_releases(spec: pipeline.Pipeline, hypothetical: Replay) -> tuple[ReplayWaiting, ...]:
    return tuple(
        ReplayWaiting(spec.stage[edge.target].name, candidate.release, candidate.reason)
        for edge in spec.edges
        if (candidate := hypothetical.state.candidates.get(edge.id)) is not None
    )
