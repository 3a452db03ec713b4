"""Subscriptions of the API. Each event checks the permissions of the caller again."""

from collections.abc import AsyncGenerator
from datetime import datetime

import strawberry

from controlplane.agents.api.agents import AgentSubscription
from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.api.loading import cluster_type
from controlplane.clusters.operations.clusters import Clusters
from controlplane.pipelines.api.pipelines import PipelineType
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.context import CLUSTER, PIPELINE, SERVICE
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.deltas import deltas
from controlplane.search.api import FleetSubscription
from controlplane.secrets.api import SecretSubscription
from controlplane.services.api.loading import service_type
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.operations.services import Services


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


async def _load_service(info: Info, id: str) -> ServiceDeployment:
    return await service_type(info, await info.context[Services].get(info.context.actor, id))


async def _load_cluster(info: Info, id: str) -> ClusterType:
    return await cluster_type(info, await info.context[Clusters].get(info.context.actor, id))


async def _load_pipeline(info: Info, id: str) -> PipelineType:
    return PipelineType.of(await info.context[Pipelines].get(info.context.actor, id))


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
        return deltas(info, SERVICE, id, since, _load_service, ServiceDelta)

    @strawberry.subscription
    def cluster_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ClusterDelta, None]:
        """Changes to clusters. A subscriber may receive a change twice.

        Args:
            id: ID of the cluster. Default: all clusters.
        """
        return deltas(info, CLUSTER, id, since, _load_cluster, ClusterDelta)

    @strawberry.subscription
    def pipeline_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[PipelineDelta, None]:
        """Changes to pipelines. A subscriber may receive a change twice.

        Args:
            id: ID of the pipeline. Default: all pipelines.
        """
        return deltas(info, PIPELINE, id, since, _load_pipeline, PipelineDelta)
