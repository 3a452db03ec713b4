"""What can be watched. Each event asks for the caller's right anew."""

from collections.abc import AsyncGenerator
from datetime import datetime

import strawberry

from controlplane.graphql.agents import AgentSubscription
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.context import Context, Info
from controlplane.graphql.deltas import RESUMABLE, deltas
from controlplane.graphql.pipelines import Pipeline
from controlplane.graphql.search import FleetSubscription
from controlplane.graphql.secrets import SecretSubscription
from controlplane.graphql.services import related
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.deps import CLUSTER, PIPELINE, SERVICE


@strawberry.type
class ServiceDelta:
    """A service that changed; `payload` is null once it has gone.

    `at` is when this was told: given as `since`, a new subscription tells what was missed.
    """

    id: strawberry.ID
    payload: ServiceDeployment | None
    at: datetime


@strawberry.type
class ClusterDelta:
    """A cluster that changed; `payload` is null once it has gone. `at` is as of services."""

    id: strawberry.ID
    payload: Cluster | None
    at: datetime


@strawberry.type
class PipelineDelta:
    """A pipeline that changed; `payload` is null once it has gone. `at` is as of services."""

    id: strawberry.ID
    payload: Pipeline | None
    at: datetime


async def _service(context: Context, id: str) -> ServiceDeployment:
    row = await context.verbs.services.get(context.actor, id)
    return (await related(context, [row]))[0]


async def _cluster(context: Context, id: str) -> Cluster:
    return Cluster.of(await context.verbs.clusters.get(context.actor, id))


async def _pipeline(context: Context, id: str) -> Pipeline:
    return Pipeline.of(await context.verbs.pipelines.get(context.actor, id))


@strawberry.type
class Subscription(AgentSubscription, FleetSubscription, SecretSubscription):
    @strawberry.subscription(description=f"Services as they change; one, or all. {RESUMABLE}")
    def service_deployment_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ServiceDelta, None]:
        return deltas(info, SERVICE, id, since, _service, ServiceDelta)

    @strawberry.subscription(description=f"Clusters as they change; one, or all. {RESUMABLE}")
    def cluster_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ClusterDelta, None]:
        return deltas(info, CLUSTER, id, since, _cluster, ClusterDelta)

    @strawberry.subscription(description=f"Pipelines as they change; one, or all. {RESUMABLE}")
    def pipeline_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[PipelineDelta, None]:
        return deltas(info, PIPELINE, id, since, _pipeline, PipelineDelta)
