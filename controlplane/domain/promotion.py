"""Pipelines as they are kept: what people wrote, where the engine stands, what has happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from controlplane.domain.access import Kind, Target

MOST_MEASURED = 240


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named pipeline. `spec` and `state` are the engine's JSON forms (`domain.pipelines`).

    `version` grows with each change of spec or state, so that two writers never overwrite
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
    def target(self) -> Target:
        """Where the pipeline stands."""
        return Target.within(Kind.PIPELINE, self.project_id, self.id, self.name)


@dataclass(frozen=True, slots=True)
class PipelineService:
    """A service of a pipeline, so that its pipelines are found by it; `promoted`: not git moves it.

    `id` is `<pipeline id>/<service id>`. `changing`: it was given a release and is on its way; kept
    where cluster groups limit how many of their clusters may be.
    """

    id: str
    pipeline_id: str
    service_id: str
    promoted: bool
    changing: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a metric gave when a gate, or a step of it, asked; the first series, if several.

    `release` is the number of the release that waited, 0 of one that has gone meanwhile.
    """

    at: datetime
    step: str
    release: int
    passed: bool
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PipelineGate:
    """A gate, so that its pipeline is found by it.

    `measured` has the newest answers of its metrics, the newest last, `MOST_MEASURED` at most.
    """

    id: str
    pipeline_id: str
    measured: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineTrigger:
    """A trigger that looks for news elsewhere, and how that goes.

    `interval_s` lies between two looks as long as nothing is new; `error` is why the last look
    has failed. `sealed_webhook` is the secret that signs hints, encrypted.
    """

    id: str
    pipeline_id: str
    interval_s: int
    checked_at: datetime | None = None
    next_at: datetime | None = None
    error: str = ""
    sealed_webhook: bytes | None = field(default=None, repr=False)

    @property
    def held_until(self) -> datetime | None:
        """Until when a server wants not to be asked: it said so if that is past the interval."""
        if self.checked_at is None or self.next_at is None:
            return None
        said = self.next_at - self.checked_at > timedelta(seconds=self.interval_s)
        return self.next_at if said else None


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """Events that changed the state of a pipeline at one moment, as the engine's JSON forms.

    Now and then `spec` and `state` say where it stood before them, for replays to begin at.
    """

    id: str
    pipeline_id: str
    at: datetime
    events: list[dict[str, Any]]
    spec: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RefusedRevision:
    """A commit or digest (`id`) that no service is given, until it is lifted."""

    id: str
    actor: str
    reason: str
    inserted_at: datetime
