"""Replay of a pipeline's events, with its original or with other gates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from controlplane.pipelines.engine.effects import Promote, WakeAt
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.events import Event, Tick
from controlplane.pipelines.model.pipeline import Pipeline, StageId
from controlplane.pipelines.model.state import PipelineState, ReleaseId

MAX_TICKS = 10_000


class Promotion(NamedTuple):
    """A stage began to take in a release, or was rolled back to one."""

    stage: StageId
    release: ReleaseId
    back: bool


@dataclass(slots=True)
class Replay:
    """End state of a replay, and its promotions."""

    state: PipelineState
    promotions: dict[Promotion, datetime] = field(default_factory=dict)
    """Time of each promotion's first batch."""
    wake: datetime | None = None
    ticks: int = 0


def replay(
    pipeline: Pipeline,
    state: PipelineState,
    recorded: Iterable[tuple[datetime, Sequence[Event]]],
    until: datetime,
) -> Replay:
    """Feeds the recorded events of each moment to the engine, with the ticks between them.

    The engine ignores reports about releases that have not entered a stage, as always.
    """
    run = Replay(state)
    for at, events in recorded:
        _pass_time(pipeline, run, at)
        _feed(pipeline, run, events, at)
    _pass_time(pipeline, run, until)
    return run


def _pass_time(pipeline: Pipeline, run: Replay, until: datetime) -> None:
    while run.wake is not None and run.wake <= until and run.ticks < MAX_TICKS:
        at, run.wake = run.wake, None
        run.ticks += 1
        _feed(pipeline, run, (Tick(),), at)


def _feed(pipeline: Pipeline, run: Replay, events: Iterable[Event], at: datetime) -> None:
    for event in events:
        run.state, effects = step(pipeline, run.state, event, at)
        wakes = [effect.at for effect in effects if isinstance(effect, WakeAt)]
        run.wake = wakes[0] if wakes else run.wake
        for effect in effects:
            if isinstance(effect, Promote):
                promotion = Promotion(effect.stage, effect.release, effect.back)
                run.promotions.setdefault(promotion, at)
