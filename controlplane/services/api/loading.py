"""Clusters and services in responses: related resources are fetched for all rows at once."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from controlplane.access.api.loading import load_projects
from controlplane.clusters.api.loading import RELATED_TO_CLUSTERS, cluster_types, load_freezes
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.selections import selected_fields
from controlplane.repositories.api.repositories import GitRepository
from controlplane.services.api.types import (
    RevisionType,
    ServiceComponent,
    ServiceDeployment,
    ServiceMetadata,
    ServiceSourceType,
)
from controlplane.services.model.service import Component, Service
from controlplane.services.operations.services import Services


class ContextLoader(Protocol):
    """Loads the service contexts of services; contexts are a noun above services."""

    async def load(self, context: Context, services: Sequence[Service]) -> dict[str, list[object]]:
        """Returns the contexts in the API, by service id."""
        ...


async def service_type(info: Info, row: Service) -> ServiceDeployment:
    """Converts a service with the selected related resources."""
    return (await service_types(info, [row]))[0]


async def service_types(info: Info, rows: Sequence[Service]) -> list[ServiceDeployment]:
    """Converts services with the selected related resources: one lookup per kind."""
    return await with_related(info.context, rows, selected_fields(info))


async def with_related(
    context: Context, rows: Sequence[Service], kinds: frozenset[str]
) -> list[ServiceDeployment]:
    """Converts services with the named related resources."""
    services = context[Services]
    related = await services.related(context.actor, rows, kinds)
    contexts = await context[ContextLoader].load(context, rows) if "contexts" in kinds else {}
    # Many services share a cluster or a repository, so each is converted once.
    clusters = await cluster_types(context, related.clusters.values(), kinds & RELATED_TO_CLUSTERS)
    repositories = {
        id: GitRepository.of(repository) for id, repository in related.repositories.items()
    }
    project_ids = [row.project_id for row in rows] if "project" in kinds else []
    projects = await load_projects(context, project_ids)
    freezes = await load_freezes(context, _clusters_of(rows) if "freeze" in kinds else ())
    return [
        ServiceDeployment.of(
            row,
            cluster=clusters.get(row.cluster_id),
            project=projects.get(row.project_id),
            repository=repositories.get(row.repository_id or ""),
            revision=RevisionType.of_optional(related.revisions.get(row.desired.revision_id or "")),
            components=ServiceComponent.of_each(related.components.get(row.id, ())),
            metadata=_metadata_of(related.components.get(row.id, ())),
            contexts=contexts.get(row.id, []),
            freeze=freezes.get(row.cluster_id),
            sync_requested_at=related.sync_requests.get(row.id),
            sources=ServiceSourceType.of_each(related.sources.get(row.id, ())),
        )
        for row in rows
    ]


def _clusters_of(rows: Sequence[Service]) -> frozenset[str]:
    return frozenset(row.cluster_id for row in rows)


def _metadata_of(components: Iterable[Component]) -> ServiceMetadata:
    images = {image for component in components for image in component.images}
    return ServiceMetadata(images=sorted(images))
