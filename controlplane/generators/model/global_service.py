"""Global services: one definition, replicated to every matching cluster."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.generators.model.definitions import GeneratorDefinition
from controlplane.services.model.service import OwnerKind
from controlplane.services.model.templates import ServiceTemplate, TemplateOverride


@dataclass(frozen=True, slots=True)
class GlobalService(GeneratorDefinition):
    """A template, or an existing service that is replicated to other clusters."""

    source_id: str | None = None
    """ID of the existing service. None if a template is set."""
    template: ServiceTemplate | None = None
    """Template of the services. None if an existing service is the template."""

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
