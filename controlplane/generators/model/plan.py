"""Plans the difference between generated and existing services. Pure, and careful with removals.

`plan_changes` never plans a removal from an incomplete evaluation, nor more removals than allowed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.clusters.model.cluster import Cluster
from controlplane.platform.parts import column_values
from controlplane.services.model.service import Service
from controlplane.services.model.templates import ServiceTemplate, TemplateOverride, apply_override
from core.identity import ServiceId
from core.spec.source import RenderedBundle

Place = tuple[str, str]
"""A cluster's id, and a service's name there."""


@dataclass(frozen=True, slots=True)
class GeneratedService:
    """A service that should exist. `content` is its bundle if it comes from no repository."""

    cluster_id: str
    template: ServiceTemplate
    content: RenderedBundle | None = None

    @property
    def place(self) -> Place:
        return (self.cluster_id, self.template.name)


@dataclass(frozen=True, slots=True)
class GeneratorEvaluation:
    """Generated services; `problems` make the result incomplete."""

    services: tuple[GeneratedService, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """Planned changes."""

    create: tuple[GeneratedService, ...] = ()
    update: tuple[tuple[Service, GeneratedService], ...] = ()
    remove: tuple[Service, ...] = ()
    withheld: tuple[Service, ...] = ()
    """Removals that wait for a confirmation, or for a complete evaluation."""
    collisions: tuple[GeneratedService, ...] = ()
    """Services whose place another service occupies."""
    frozen: tuple[Place, ...] = ()
    """Places that must not change now."""
    problems: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Returns the number of services that change."""
        return len(self.create) + len(self.update) + len(self.remove)


@dataclass(frozen=True, slots=True)
class ExistingServices:
    """Existing state: services of the definition, occupied places, frozen clusters.

    `uses` has each service's secret ids by name.
    """

    owned: Sequence[Service] = ()
    occupied: Collection[Place] = ()
    frozen: Collection[str] = field(default_factory=frozenset)
    uses: Mapping[ServiceId, Mapping[str, str]] = field(default_factory=dict)

    def differs(self, service: Service, generated: GeneratedService) -> bool:
        """Returns whether a service differs from its generated form."""
        secrets = generated.template.secrets
        others = secrets is not None and secrets != self.uses.get(service.id, {})
        return others or bool(changed_columns(service, generated))


def plan_changes(
    evaluation: GeneratorEvaluation, present: ExistingServices, max_removals: int
) -> TargetPlan:
    """Plans the changes after which the generated services exist, except those in doubt."""
    generated, duplicates = _unique_by_place(evaluation.services)
    owned: dict[Place, Service] = {
        (service.cluster_id, service.name): service for service in present.owned
    }
    create, collisions = [], list(duplicates)
    for place, service in generated.items():
        if place not in owned:
            (collisions if place in present.occupied else create).append(service)
    update = [
        (owned[p], service)
        for p, service in generated.items()
        if p in owned and present.differs(owned[p], service)
    ]
    surplus = [service for place, service in owned.items() if place not in generated]
    creatable = [service for service in create if service.cluster_id not in present.frozen]
    updatable = [pair for pair in update if pair[0].cluster_id not in present.frozen]
    removable = [service for service in surplus if service.cluster_id not in present.frozen]
    changed = {new.place for new in create} | {new.place for _, new in update}
    changed |= {(service.cluster_id, service.name) for service in surplus}
    is_withheld = bool(evaluation.problems or collisions) or len(removable) > max_removals
    return TargetPlan(
        create=tuple(creatable),
        update=tuple(updatable),
        remove=() if is_withheld else tuple(removable),
        withheld=tuple(removable) if is_withheld else (),
        collisions=tuple(collisions),
        frozen=tuple(sorted(place for place in changed if place[0] in present.frozen)),
        problems=evaluation.problems,
    )


def generate_per_cluster(
    template: ServiceTemplate,
    clusters: Sequence[Cluster],
    overrides: Mapping[str, TemplateOverride],
) -> tuple[GeneratedService, ...]:
    """Creates one service a cluster, each with that cluster's overrides."""
    return tuple(
        GeneratedService(cluster.id, apply_override(template, overrides.get(cluster.id)))
        for cluster in clusters
    )


def changed_columns(service: Service, generated: GeneratedService) -> dict[str, object]:
    """Returns the fields of a service that differ from its generated form."""
    present, columns = column_values(service), generated.template.columns()
    if generated.content is not None:
        columns["digest"] = generated.content.digest
    return {name: value for name, value in columns.items() if present[name] != value}


def _unique_by_place(
    generated: Collection[GeneratedService],
) -> tuple[dict[Place, GeneratedService], list[GeneratedService]]:
    """Returns the first service of each place, and the duplicates."""
    by_place: dict[Place, GeneratedService] = {}
    duplicates = [
        service
        for service in generated
        if by_place.setdefault(service.place, service) is not service
    ]
    return by_place, duplicates
