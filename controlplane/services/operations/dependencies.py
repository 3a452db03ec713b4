"""Dependencies between services of a cluster: no cycles, and which services wait."""

from collections.abc import Collection, Iterable, Sequence

from controlplane.platform.context import RENDER_SERVICES
from controlplane.platform.cycles import find_cycle
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_label
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid

MAX_DEPENDENCIES = 64


def check_dependency_names(names: Sequence[str]) -> tuple[str, ...]:
    """Service names without duplicates. Invalid: the message names the field."""
    check_count(len(names), "dependencies", MAX_DEPENDENCIES)
    return tuple(dict.fromkeys(check_label(name, "dependencies.name") for name in names))


async def check_dependencies(tx: Transaction, service: Service) -> None:
    """Invalid: a dependency does not exist in the cluster.

    Conflict: the dependencies form a cycle.
    """
    if not service.spec.dependencies:
        return
    others = {s.name: s for s in await tx[ServiceStore].of_clusters(service.cluster_id)}
    others[service.name] = service
    for name in service.spec.dependencies:
        if name not in others:
            raise Invalid(f"service {name!r} does not exist in this cluster", field="dependencies")
    cycle = find_cycle(
        service.name, lambda name: others[name].spec.dependencies if name in others else ()
    )
    if cycle:
        raise Conflict(f"the dependencies form a cycle: {' → '.join(cycle)}")


async def check_not_needed(tx: Transaction, service: Service) -> None:
    """Conflict: other services depend on the service."""
    rows = await tx[ServiceStore].of_clusters(service.cluster_id)
    dependents = sorted(row.name for row in rows if service.name in row.spec.dependencies)
    if dependents:
        raise Conflict(
            f"{', '.join(dependents[:5])} depend on service {service.name!r}: change them first"
        )


async def waiting_services(tx: Transaction, services: Iterable[Service]) -> set[str]:
    """Ids of the services that wait for a dependency that is not healthy."""
    dependents = [
        service
        for service in services
        if service.spec.dependencies and not service.desired.wait_skipped
    ]
    if not dependents:
        return set()
    rows = await tx[ServiceStore].with_names(
        {service.cluster_id for service in dependents},
        {name for service in dependents for name in service.spec.dependencies},
    )
    healthy = {(r.cluster_id, r.name) for r in rows if r.applied_status is ServiceStatus.HEALTHY}
    return {
        service.id
        for service in dependents
        if any((service.cluster_id, name) not in healthy for name in service.spec.dependencies)
    }


async def dependents_to_wake(tx: Transaction, cluster_ids: Collection[str]) -> set[tuple[str, str]]:
    """Topics and keys to publish after a service in these clusters became healthy."""
    if not cluster_ids:
        return set()
    waiting = await tx[ServiceStore].waiting(cluster_ids)
    return {
        (RENDER_SERVICES, f"{service.repository_id}/{service.id}")
        for service in waiting
        if service.repository_id
    }


def dependency_groups(services: Sequence[Service]) -> list[list[Service]]:
    """Groups of services, each after the groups that contain its dependencies."""
    remaining = {(service.cluster_id, service.name): service for service in services}
    groups: list[list[Service]] = []
    while remaining:
        ready = [
            service
            for service in remaining.values()
            if not any(
                (service.cluster_id, name) in remaining for name in service.spec.dependencies
            )
        ]
        group = ready or list(remaining.values())
        groups.append(group)
        for service in group:
            del remaining[service.cluster_id, service.name]
    return groups
