"""Pipelines as they are stored: specification, engine state and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from controlplane.authorization import Resource, ResourceKind

MAX_MEASURED = 240


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """A named pipeline. `spec` and `state` are the engine's JSON forms (`pipelines.engine`).

    `version` grows with each change of spec or state, so that concurrent writers never overwrite
    each other.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    spec: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    project_id: str | None = None

    @property
    def target(self) -> Resource:
        """Returns the pipeline's location for authorization."""
        return Resource.within(ResourceKind.PIPELINE, self.project_id, self.id, self.name)


@dataclass(frozen=True, slots=True)
class PipelineService:
    """A service of a pipeline; this row finds the pipelines of a service.

    The pipeline, not git, moves a `promoted` service. `id` is `<pipeline id>/<service id>`.
    `changing` says that a release is being rolled out to it; it is kept only where cluster groups
    limit the number of changing clusters.
    """

    id: str
    pipeline_id: str
    service_id: str
    promoted: bool
    changing: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metric values of a gate or of one of its steps; only the first of several series.

    `release` is the number of the waiting release, or 0 if that release is gone.
    """

    at: datetime
    step: str
    release: int
    passed: bool
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PipelineGate:
    """A gate; this row finds its pipeline.

    `measured` holds the last results of its metrics, newest last, at most `MAX_MEASURED`.
    """

    id: str
    pipeline_id: str
    measured: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineTrigger:
    """A trigger that polls an external source, with its state.

    Polls are `interval_s` apart while nothing changes; `error` is the reason for the last failure.
    `sealed_webhook` is the encrypted secret that signs webhook calls.
    """

    id: str
    pipeline_id: str
    interval_s: int
    checked_at: datetime | None = None
    next_at: datetime | None = None
    error: str = ""
    sealed_webhook: bytes | None = field(default=None, repr=False)

    @property
    def not_before(self) -> datetime | None:
        """Returns the time until which a server asked not to be
        polled, if later than the interval.
        """
        if self.checked_at is None or self.next_at is None:
            return None
        said = self.next_at - self.checked_at > timedelta(seconds=self.interval_s)
        return self.next_at if said else None


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """Events that changed a pipeline's state at one moment, as the engine's JSON forms.

    Some rows hold `spec` and `state` before the events, as starting points for replays.
    """

    id: str
    pipeline_id: str
    at: datetime
    events: list[dict[str, Any]]
    spec: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
