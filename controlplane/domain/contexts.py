"""Service contexts: named values that templates of many services may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.domain.access import Kind, Target


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Values that templates read as `contexts.name.key`.

    `sealed` holds the secret ones, encrypted; of two with the same key, the secret counts. Values
    named in `types` are held to that `flow.ValueType`, in overrides as well. With
    `by_reference` templates find placeholders instead of its secrets, which only agents fill in;
    `secrets_version` grows with each change of them.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    configuration: Mapping[str, Any] = field(default_factory=dict)
    sealed: bytes | None = field(default=None, repr=False)
    project_id: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    by_reference: bool = False
    secrets_version: int = 0

    @property
    def target(self) -> Target:
        """Where the context stands."""
        return Target.within(Kind.CONTEXT, self.project_id, self.id, self.name)


@dataclass(frozen=True, slots=True)
class ContextBinding:
    """A service whose templates may use a context."""

    id: str
    context_id: str
    service_id: str
