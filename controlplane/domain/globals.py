"""Global services: one definition, replicated to every matching cluster."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.owners import GeneratorDefinition
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.templates import ServiceTemplate, TemplateOverride


@dataclass(frozen=True, slots=True)
class GlobalService(GeneratorDefinition):
    """A template, or an existing service (`source_id`) that is replicated to other clusters."""

    source_id: str | None = None
    template: ServiceTemplate | None = None

    @property
    def kind(self) -> OwnerKind:
        return OwnerKind.GLOBAL


@dataclass(frozen=True, slots=True)
class GlobalOverride:
    """One cluster's overrides of a global service."""

    id: str
    global_id: str
    cluster_id: str
    inserted_at: datetime
    updated_at: datetime
    patch: TemplateOverride
    actor: str = ""
