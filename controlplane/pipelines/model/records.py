"""Pipelines as they are stored: specification, engine state and events."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.parts import NamedRow
from core.json_object import JsonMapping, JsonObject

MAX_MEASURED = 240


@dataclass(frozen=True, slots=True)
class PipelineRecord(NamedRow):
    """A named pipeline. `spec` and `state` are the engine's JSON forms (`pipelines.engine`).

    `version` grows with each change of spec or state, so that concurrent writers never overwrite
    each other.
    """

    spec: JsonMapping = field(default_factory=dict)
    state: JsonMapping = field(default_factory=dict)
    version: int = 0
    project_id: str = DEFAULT_PROJECT

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
    """Metric values of a gate or of one of its steps."""

    at: datetime
    """Time of the query."""
    step: str
    """Name of the gate or of its step."""
    release: int
    """Number of the release. 0 for a release that no longer exists."""
    passed: bool
    """True if the values met the threshold."""
    values: tuple[float, ...]
    """Values of the first ten series, divided by the baseline if there is one."""


@dataclass(frozen=True, slots=True)
class PipelineGate:
    """A gate; this row finds its pipeline."""

    id: str
    pipeline_id: str
    measured: tuple[Measurement, ...] = ()
    """Last results of its metrics, newest last, at most `MAX_MEASURED`."""


@dataclass(frozen=True, slots=True)
class PipelineTrigger:
    """A trigger that polls an external source, with its state."""

    id: str
    pipeline_id: str
    interval_s: int
    """Seconds between polls while nothing changes."""
    checked_at: datetime | None = None
    """Time of the last poll."""
    next_at: datetime | None = None
    """Time of the next poll."""
    error: str = ""
    """Error of the last poll."""
    sealed_webhook: bytes | None = field(default=None, repr=False)
    """Encrypted secret that signs webhook calls."""

    @property
    def not_before(self) -> datetime | None:
        """Returns the time before which a server asked not to be polled, if after the interval."""
        if self.checked_at is None or self.next_at is None:
            return None
        is_postponed = self.next_at - self.checked_at > timedelta(seconds=self.interval_s)
        return self.next_at if is_postponed else None


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """Events that changed a pipeline's state at one moment, as the engine's JSON forms.

    Some rows hold `spec` and `state` before the events, as starting points for replays.
    """

    id: str
    pipeline_id: str
    at: datetime
    events: list[JsonObject]
    spec: JsonMapping | None = None
    state: JsonMapping | None = None
