"""Global services: one definition, replicated to every cluster that fits."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.owners import Definition
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.templates import Override, ServiceTemplate


@dataclass(frozen=True, slots=True)
class GlobalService(Definition):
    """A template, or a service (`source_id`) that is had in other clusters as it is in its own."""

    source_id: str | None = None
    template: ServiceTemplate | None = None

    @property
    def kind(self) -> OwnerKind:
        return OwnerKind.GLOBAL


@dataclass(frozen=True, slots=True)
class GlobalOverride:
    """What one cluster has otherwise than a global service says."""

    id: str
    global_id: str
    cluster_id: str
    inserted_at: datetime
    updated_at: datetime
    patch: Override
    actor: str = ""
