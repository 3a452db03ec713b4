"""Service contexts: named values for the templates of many services."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.domain.access import Resource, ResourceKind


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Values that templates read as `contexts.name.key`.

    `sealed` holds secret values, encrypted; a secret wins over a plain value with the same key.
    `types` declares a `flow.ValueType` for some values; overrides must match it too. With
    `by_reference` templates receive placeholders instead of secrets, which only agents replace.
    `secrets_version` grows with each change of the secrets.
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
    def target(self) -> Resource:
        """Returns the context's location for authorization."""
        return Resource.within(ResourceKind.CONTEXT, self.project_id, self.id, self.name)


@dataclass(frozen=True, slots=True)
class ContextBinding:
    """A service whose templates may use a context."""

    id: str
    context_id: str
    service_id: str
