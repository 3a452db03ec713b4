"""Managed namespaces in the API."""

import strawberry

from controlplane.access.api.loading import with_projects
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.generators.api.definitions import (
    GENERATOR_NAMES,
    GeneratorFields,
    GeneratorInput,
    GeneratorOutput,
)
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.operations.namespaces import ManagedNamespaces, NamespaceChange
from controlplane.platform.graphql.derive import draft, output
from controlplane.platform.graphql.scalars import Json
from controlplane.services.api.inputs import ServiceDeploymentAttributes
from controlplane.services.api.loading import service_types
from controlplane.services.api.types import ServiceDeployment


@output(ManagedNamespace)
class ManagedNamespaceType(GeneratorOutput[ManagedNamespace]):
    """A namespace that Towline creates in every matching cluster."""


@draft(NamespaceChange, rename=GENERATOR_NAMES)
class ManagedNamespaceAttributes(GeneratorInput[NamespaceChange]):
    """Fields of a managed namespace. A field that is null or absent stays as it is; a given list or
    object replaces the whole value."""

    selector: ClusterSelectorAttributes | None = None
    labels: Json | None = None
    """JSON object with labels. Limit: 64."""
    annotations: Json | None = None
    """JSON object with annotations. Limit: 64."""
    quota: list[TagAttributes] | None = None
    template: ServiceDeploymentAttributes | None = None


_NAMESPACES = GeneratorFields(
    "managed namespace",
    ManagedNamespaces,
    ManagedNamespaceType,
    with_projects(ManagedNamespaceType),
)


@strawberry.type
class NamespaceQuery:
    managed_namespace = _NAMESPACES.get(ManagedNamespaces.get)
    """A managed namespace, by ID or name."""
    managed_namespaces = _NAMESPACES.page(ManagedNamespaces.page)
    """Managed namespaces.

    Args:
        q: Text to search for in names and namespaces. Limit: 200 characters.
    """
    managed_namespace_services = _NAMESPACES.related(
        ManagedNamespaces.services, ServiceDeployment, service_types
    )
    """Services that create a managed namespace, and services in it."""


@strawberry.type
class NamespaceMutation:
    create_managed_namespace = _NAMESPACES.create(
        ManagedNamespaces.create, ManagedNamespaceAttributes
    )
    """Creates a managed namespace."""
    update_managed_namespace = _NAMESPACES.update(
        ManagedNamespaces.update, ManagedNamespaceAttributes
    )
    """Updates a managed namespace in all clusters."""
    delete_managed_namespace = _NAMESPACES.action(ManagedNamespaces.delete)
    """Deletes a managed namespace. `onDelete` determines the handling of its namespaces."""
    sync_managed_namespace = _NAMESPACES.sync(ManagedNamespaces.sync)
    """Evaluates a managed namespace now."""
