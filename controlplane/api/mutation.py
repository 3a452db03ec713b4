"""Mutations of the API."""

import strawberry

from controlplane.access.api.mutation import AccessMutation
from controlplane.agents.api.agents import AgentMutation
from controlplane.agents.api.streams import StreamMutation
from controlplane.cluster_sources.api import ClusterSourceMutation
from controlplane.clusters.api.agent_settings import AgentSettingsMutation
from controlplane.clusters.api.bootstrap_tokens import BootstrapTokenMutation
from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.api.groups import ClusterGroupMutation
from controlplane.clusters.api.inputs import ClusterAttributes, ClusterUpdateAttributes
from controlplane.clusters.api.loading import cluster_type, clusters_in_list
from controlplane.clusters.operations.clusters import Clusters
from controlplane.configuration.api.contexts import ContextMutation
from controlplane.configuration.api.flow import FlowMutation
from controlplane.configuration_sources.api import ConfigurationSourceMutation
from controlplane.generators.api.global_services import GlobalMutation
from controlplane.generators.api.namespaces import NamespaceMutation
from controlplane.generators.api.service_sets import SetMutation
from controlplane.manifests.api.manifests import ManifestMutation
from controlplane.notifications.api import NotificationMutation
from controlplane.pipelines.api.decisions import ReleaseDecisionMutation
from controlplane.pipelines.api.pipelines import PIPELINES, PipelineAttributes, PipelineType
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.resource_fields import ResourceFields
from controlplane.repositories.api.registries import HelmRepositoryMutation, OciRepositoryMutation
from controlplane.repositories.api.repositories import GIT
from controlplane.secrets.api import SecretMutation
from controlplane.services.api.inputs import (
    ServiceCloneAttributes,
    ServiceDeploymentAttributes,
    ServiceUpdateAttributes,
)
from controlplane.services.api.loading import service_type, service_types
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.operations.services import Services
from controlplane.views.api import SavedViewMutation
from core.spec.sync import Removal

_CLUSTERS = ResourceFields("cluster", Clusters, ClusterType, clusters_in_list)
_SERVICES = ResourceFields("service", Services, ServiceDeployment, service_types)


@strawberry.type
class Mutation(
    AccessMutation,
    AgentMutation,
    StreamMutation,
    ContextMutation,
    SecretMutation,
    FlowMutation,
    AgentSettingsMutation,
    NotificationMutation,
    GlobalMutation,
    SetMutation,
    NamespaceMutation,
    ClusterGroupMutation,
    ReleaseDecisionMutation,
    HelmRepositoryMutation,
    OciRepositoryMutation,
    ManifestMutation,
    ClusterSourceMutation,
    ConfigurationSourceMutation,
    BootstrapTokenMutation,
    SavedViewMutation,
):
    """Changes to the installation. Each mutation needs a permission on the resource that it
    changes."""

    @strawberry.mutation
    async def create_cluster(self, info: Info, attributes: ClusterAttributes) -> ClusterType | None:
        """Registers a cluster. Returns its `deployToken`.

        Args:
            attributes: Fields of the cluster.
        """
        clusters, actor = info.context[Clusters], info.context.actor
        row, token = await clusters.create(actor, attributes.change())
        return await cluster_type(info, row, token)

    update_cluster = _CLUSTERS.call(Clusters.update, ClusterUpdateAttributes)
    """Updates a cluster.

    Args:
        id: ID of the cluster.
        attributes: Fields to change.
    """
    delete_cluster = _CLUSTERS.action(Clusters.delete)
    """Deletes a cluster after its agent has removed all services."""
    detach_cluster = _CLUSTERS.action(Clusters.detach)
    """Removes a cluster from Towline at once and keeps everything in it."""

    @strawberry.mutation
    async def rotate_cluster_token(self, info: Info, id: strawberry.ID) -> ClusterType | None:
        """Creates a deploy token and revokes all older ones at once.

        Args:
            id: ID of the cluster.
        """
        row, token = await info.context[Clusters].rotate_token(info.context.actor, id)
        return await cluster_type(info, row, token)

    create_git_repository = GIT.create
    """Adds a Git repository."""
    update_git_repository = GIT.update
    """Updates a Git repository."""
    delete_git_repository = GIT.delete
    """Removes a Git repository. Fails with CONFLICT while services use it."""
    sync_git_repository = GIT.sync
    """Polls a Git repository now."""

    @strawberry.mutation
    async def create_service_deployment(
        self,
        info: Info,
        attributes: ServiceDeploymentAttributes,
        cluster_id: strawberry.ID | None = None,
        cluster: str | None = None,
        repository_url: str | None = None,
    ) -> ServiceDeployment | None:
        """Creates a service in a cluster. Give either `clusterId` or `cluster`.

        Args:
            attributes: Fields of the service.
            cluster_id: ID of the cluster.
            cluster: Handle of the cluster.
            repository_url: URL of the Git or OCI repository, instead of its ID. An unknown one is
                added without credentials, together with the service or not at all.
        """
        services, actor, change = info.context[Services], info.context.actor, attributes.change()
        row = await services.create(
            actor, cluster_id, cluster, change, repository_url=repository_url
        )
        return await service_type(info, row)

    update_service_deployment = _SERVICES.call(Services.update, ServiceUpdateAttributes)
    """Updates a service.

    Args:
        id: ID of the service.
        attributes: Fields to change.
    """
    delete_service_deployment = _SERVICES.action(Services.delete)
    """Deletes a service and its objects."""

    @strawberry.mutation
    async def detach_service_deployment(
        self, info: Info, id: strawberry.ID
    ) -> ServiceDeployment | None:
        """Deletes a service and keeps its objects in the cluster.

        Args:
            id: ID of the service.
        """
        services = info.context[Services]
        row = await services.delete(info.context.actor, id, Removal.ORPHAN)
        return await service_type(info, row)

    @strawberry.mutation
    async def kick_service(self, info: Info, service_id: strawberry.ID) -> ServiceDeployment | None:
        """Syncs a service now: polls for commits and compares the cluster. `repository.polledAt` of
        the result is the time before this poll."""
        services = info.context[Services]
        row = await services.sync(info.context.actor, service_id)
        before = await service_type(info, row)
        await services.request_poll(row)
        return before

    force_service = _SERVICES.action(Services.force)
    """Renders and applies a service again, even without changes."""
    proceed_service = _SERVICES.action(Services.proceed)
    """Lets a service proceed once without waiting for its dependencies."""
    clone_service = _SERVICES.call(Services.clone, ServiceCloneAttributes, id="service_id")
    """Creates a service from another one.

    Args:
        service_id: ID of the original service.
        cluster_id: ID of the target cluster.
        attributes: Fields that differ from the original.
    """
    rollback_service = _SERVICES.call(Services.rollback)
    """Rolls a service back to a revision and pins it there."""
    release_service = _SERVICES.action(Services.release)
    """Unpins a service after a rollback. It follows its ref again."""

    @strawberry.mutation
    async def save_pipeline(
        self, info: Info, name: str, attributes: PipelineAttributes
    ) -> PipelineType | None:
        """Creates or updates the pipeline with this name.

        Args:
            name: Name of the pipeline. Limit: 255 characters.
            attributes: Definition of the pipeline. Replaces the whole definition.
        """
        context = info.context
        return PipelineType.of(
            await context[Pipelines].save(info.context.actor, attributes.draft(name))
        )

    delete_pipeline = PIPELINES.action(Pipelines.delete)
    """Deletes a pipeline and keeps its services."""

    pause_pipeline = PIPELINES.call(Pipelines.pause)
    """Pauses a pipeline. No release enters a stage until `resumePipeline`.

    Args:
        reason: Reason shown to users.
    """
    resume_pipeline = PIPELINES.action(Pipelines.resume)
    """Resumes a paused pipeline."""
