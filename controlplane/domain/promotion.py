"""A pipeline as it is kept: what people wrote, and where its engine stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.domain.access import Kind, Target


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
