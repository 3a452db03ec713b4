"""Subscriptions of the API. Each event checks the permissions of the caller again."""

from collections.abc import AsyncGenerator
from datetime import datetime

import strawberry

from controlplane.graphql.agents import AgentSubscription
from controlplane.graphql.clusters import ClusterType
from controlplane.graphql.context import Context, Info
from controlplane.graphql.deltas import deltas
from controlplane.graphql.pipelines import PipelineType
from controlplane.graphql.search import FleetSubscription
from controlplane.graphql.secrets import SecretSubscription
from controlplane.graphql.services import with_related
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.deps import CLUSTER, PIPELINE, SERVICE


@strawberry.type
class ServiceDelta:
    """A change to a service."""

    id: strawberry.ID
    """ID of the service."""
    payload: ServiceDeployment | None
    """The service. Null after its deletion."""
    at: datetime
    """Time of this message. Give it as `since` to receive missed changes."""


@strawberry.type
class ClusterDelta:
    """A change to a cluster."""

    id: strawberry.ID
    """ID of the cluster."""
    payload: ClusterType | None
    """The cluster. Null after its deletion."""
    at: datetime
    """Time of this message. Give it as `since` to receive missed changes."""


@strawberry.type
class PipelineDelta:
    """A change to a pipeline."""

    id: strawberry.ID
    """ID of the pipeline."""
    payload: PipelineType | None
    """The pipeline. Null after its deletion."""
    at: datetime
    """Time of this message. Give it as `since` to receive missed changes."""


async def _service(context: Context, id: str) -> ServiceDeployment:
    row = await context.verbs.services.get(context.actor, id)
    return (await with_related(context, [row]))[0]


async def _cluster(context: Context, id: str) -> ClusterType:
    return ClusterType.of(await context.verbs.clusters.get(context.actor, id))


async def _pipeline(context: Context, id: str) -> PipelineType:
    return PipelineType.of(await context.verbs.pipelines.get(context.actor, id))


@strawberry.type
class Subscription(AgentSubscription, FleetSubscription, SecretSubscription):
    """Streams of changes. Towline checks the permissions of the subscriber before each message."""

    @strawberry.subscription
    def service_deployment_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ServiceDelta, None]:
        """Changes to services. A subscriber may receive a change twice.

        Args:
            id: ID of the service. Default: all services.
        """
        return deltas(info, SERVICE, id, since, _service, ServiceDelta)

    @strawberry.subscription
    def cluster_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ClusterDelta, None]:
        """Changes to clusters. A subscriber may receive a change twice.

        Args:
            id: ID of the cluster. Default: all clusters.
        """
        return deltas(info, CLUSTER, id, since, _cluster, ClusterDelta)

    @strawberry.subscription
    def pipeline_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[PipelineDelta, None]:
        """Changes to pipelines. A subscriber may receive a change twice.

        Args:
            id: ID of the pipeline. Default: all pipelines.
        """
        return deltas(info, PIPELINE, id, since, _pipeline, PipelineDelta)
