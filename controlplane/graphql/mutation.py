"""What can be changed."""

from datetime import datetime

import strawberry

from controlplane.domain.services import Removal
from controlplane.graphql.access_mutation import AccessMutation
from controlplane.graphql.agents import AgentMutation
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.context import Info
from controlplane.graphql.contexts import ContextMutation
from controlplane.graphql.deployment import DeploymentMutation
from controlplane.graphql.fleet import FleetMutation
from controlplane.graphql.flow import FlowMutation
from controlplane.graphql.helmrepositories import HelmRepositoryMutation
from controlplane.graphql.inputs import (
    ClusterAttributes,
    ClusterUpdateAttributes,
    GitAttributes,
    ServiceCloneAttributes,
    ServiceDeploymentAttributes,
    ServiceUpdateAttributes,
)
from controlplane.graphql.notifications import NotificationMutation
from controlplane.graphql.pipeline_overrides import PipelineOverrideMutation
from controlplane.graphql.pipelines import (
    DigestAttributes,
    Pipeline,
    PipelineAttributes,
    digests_of,
)
from controlplane.graphql.repositories import GitRepository
from controlplane.graphql.secrets import SecretMutation
from controlplane.graphql.services import cluster_type, service_type
from controlplane.graphql.streams import StreamMutation
from controlplane.graphql.types import ServiceDeployment

_SEEN = "CONFLICT if it was changed after `unchangedSince`, the `updatedAt` that one has seen."


@strawberry.type
class Mutation(
    AccessMutation,
    AgentMutation,
    StreamMutation,
    ContextMutation,
    SecretMutation,
    FlowMutation,
    DeploymentMutation,
    NotificationMutation,
    FleetMutation,
    PipelineOverrideMutation,
    HelmRepositoryMutation,
):
    @strawberry.mutation(description="Register a cluster. `deployToken` is given only here.")
    async def create_cluster(self, info: Info, attributes: ClusterAttributes) -> Cluster | None:
        clusters, actor = info.context.verbs.clusters, info.context.actor
        row, token = await clusters.create(actor, attributes.change())
        return await cluster_type(info, row, token)

    @strawberry.mutation(description=_SEEN)
    async def update_cluster(
        self,
        info: Info,
        id: strawberry.ID,
        attributes: ClusterUpdateAttributes,
        unchanged_since: datetime | None = None,
    ) -> Cluster | None:
        clusters, actor = info.context.verbs.clusters, info.context.actor
        row = await clusters.update(actor, id, attributes.change(), unchanged_since=unchanged_since)
        return await cluster_type(info, row)

    @strawberry.mutation(description="Delete a cluster after its agent removed all services.")
    async def delete_cluster(self, info: Info, id: strawberry.ID) -> Cluster | None:
        row = await info.context.verbs.clusters.delete(info.context.actor, id)
        return await cluster_type(info, row)

    @strawberry.mutation(description="Forget a cluster and leave everything in it as it is.")
    async def detach_cluster(self, info: Info, id: strawberry.ID) -> Cluster | None:
        row = await info.context.verbs.clusters.detach(info.context.actor, id)
        return await cluster_type(info, row)

    @strawberry.mutation(description="A new deploy token; older ones end at once.")
    async def rotate_cluster_token(self, info: Info, id: strawberry.ID) -> Cluster | None:
        row, token = await info.context.verbs.clusters.rotate_token(info.context.actor, id)
        return await cluster_type(info, row, token)

    @strawberry.mutation
    async def create_git_repository(
        self, info: Info, attributes: GitAttributes
    ) -> GitRepository | None:
        verbs = info.context.verbs
        return GitRepository.of(
            await verbs.repositories.create(info.context.actor, attributes.change())
        )

    @strawberry.mutation
    async def update_git_repository(
        self, info: Info, id: strawberry.ID, attributes: GitAttributes
    ) -> GitRepository | None:
        verbs = info.context.verbs
        return GitRepository.of(
            await verbs.repositories.update(info.context.actor, id, attributes.change())
        )

    @strawberry.mutation
    async def delete_git_repository(self, info: Info, id: strawberry.ID) -> GitRepository | None:
        verbs = info.context.verbs
        return GitRepository.of(await verbs.repositories.delete(info.context.actor, id))

    @strawberry.mutation(description="Look for new commits now.")
    async def sync_git_repository(self, info: Info, id: strawberry.ID) -> GitRepository | None:
        verbs = info.context.verbs
        return GitRepository.of(await verbs.repositories.sync(info.context.actor, id))

    @strawberry.mutation(description="Define a service in a cluster, by its id or handle.")
    async def create_service_deployment(
        self,
        info: Info,
        attributes: ServiceDeploymentAttributes,
        cluster_id: strawberry.ID | None = None,
        cluster: str | None = None,
    ) -> ServiceDeployment | None:
        services, actor = info.context.verbs.services, info.context.actor
        row = await services.create(actor, cluster_id, cluster, attributes.change())
        return await service_type(info, row)

    @strawberry.mutation(description=_SEEN)
    async def update_service_deployment(
        self,
        info: Info,
        id: strawberry.ID,
        attributes: ServiceUpdateAttributes,
        unchanged_since: datetime | None = None,
    ) -> ServiceDeployment | None:
        services, actor = info.context.verbs.services, info.context.actor
        row = await services.update(actor, id, attributes.change(), unchanged_since=unchanged_since)
        return await service_type(info, row)

    @strawberry.mutation(description="Delete a service and its objects.")
    async def delete_service_deployment(
        self, info: Info, id: strawberry.ID
    ) -> ServiceDeployment | None:
        services = info.context.verbs.services
        return await service_type(info, await services.delete(info.context.actor, id))

    @strawberry.mutation(description="Delete a service and leave its objects as they are.")
    async def detach_service_deployment(
        self, info: Info, id: strawberry.ID
    ) -> ServiceDeployment | None:
        services = info.context.verbs.services
        row = await services.delete(info.context.actor, id, Removal.ORPHAN)
        return await service_type(info, row)

    @strawberry.mutation(description="Look for commits, and check against the cluster, now.")
    async def kick_service(self, info: Info, service_id: strawberry.ID) -> ServiceDeployment | None:
        services = info.context.verbs.services
        return await service_type(info, await services.sync(info.context.actor, service_id))

    @strawberry.mutation(description="Render and apply everything again, changed or not.")
    async def force_service(self, info: Info, id: strawberry.ID) -> ServiceDeployment | None:
        services = info.context.verbs.services
        return await service_type(info, await services.force(info.context.actor, id))

    @strawberry.mutation(description="Let a service go on once without its dependencies.")
    async def proceed_service(self, info: Info, id: strawberry.ID) -> ServiceDeployment | None:
        services = info.context.verbs.services
        return await service_type(info, await services.proceed(info.context.actor, id))

    @strawberry.mutation(description="Define a service like another one, in a cluster.")
    async def clone_service(
        self,
        info: Info,
        service_id: strawberry.ID,
        cluster_id: strawberry.ID,
        attributes: ServiceCloneAttributes,
    ) -> ServiceDeployment | None:
        services, actor = info.context.verbs.services, info.context.actor
        row = await services.clone(actor, service_id, cluster_id, attributes.change())
        return await service_type(info, row)

    @strawberry.mutation(description="Return to a revision and hold there.")
    async def rollback_service(
        self, info: Info, id: strawberry.ID, revision_id: strawberry.ID
    ) -> ServiceDeployment | None:
        services = info.context.verbs.services
        row = await services.rollback(info.context.actor, id, revision_id)
        return await service_type(info, row)

    @strawberry.mutation(description="End a rollback's hold: follow the ref again.")
    async def release_service(self, info: Info, id: strawberry.ID) -> ServiceDeployment | None:
        services = info.context.verbs.services
        return await service_type(info, await services.release(info.context.actor, id))

    @strawberry.mutation(description="Create or change the pipeline of this name.")
    async def save_pipeline(
        self, info: Info, name: str, attributes: PipelineAttributes
    ) -> Pipeline | None:
        verbs = info.context.verbs
        return Pipeline.of(await verbs.pipelines.save(info.context.actor, attributes.draft(name)))

    @strawberry.mutation(description="Delete a pipeline; its services stay.")
    async def delete_pipeline(self, info: Info, id: strawberry.ID) -> Pipeline | None:
        return Pipeline.of(await info.context.verbs.pipelines.delete(info.context.actor, id))

    @strawberry.mutation(description="Say yes to exactly these digests.")
    async def approve_gate(
        self,
        info: Info,
        id: strawberry.ID,
        digests: list[DigestAttributes] | None = None,
        comment: str | None = None,
    ) -> Pipeline | None:
        pipelines = info.context.verbs.pipelines
        view = await pipelines.approve(
            info.context.actor, id, digests_of(digests or []), comment or ""
        )
        return Pipeline.of(view)

    @strawberry.mutation(description="Say no to whatever waits at the gate.")
    async def reject_gate(
        self, info: Info, id: strawberry.ID, comment: str | None = None
    ) -> Pipeline | None:
        pipelines = info.context.verbs.pipelines
        return Pipeline.of(await pipelines.reject(info.context.actor, id, comment or ""))

    @strawberry.mutation(description="Let nothing enter a stage until resumePipeline.")
    async def pause_pipeline(
        self, info: Info, id: strawberry.ID, reason: str | None = None
    ) -> Pipeline | None:
        pipelines = info.context.verbs.pipelines
        return Pipeline.of(await pipelines.pause(info.context.actor, id, reason or ""))

    @strawberry.mutation
    async def resume_pipeline(self, info: Info, id: strawberry.ID) -> Pipeline | None:
        return Pipeline.of(await info.context.verbs.pipelines.resume(info.context.actor, id))

    @strawberry.mutation(description="Try again what was refused or has failed in a stage.")
    async def retry_pipeline(self, info: Info, id: strawberry.ID, stage: str) -> Pipeline | None:
        pipelines = info.context.verbs.pipelines
        return Pipeline.of(await pipelines.retry(info.context.actor, id, stage))
