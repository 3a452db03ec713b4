"""What can be watched. Each event asks for the caller's right anew."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import strawberry

from controlplane.domain.access import Kind
from controlplane.graphql.agents import AgentSubscription
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.context import Context, Info
from controlplane.graphql.pipelines import Pipeline
from controlplane.graphql.search import FleetSubscription
from controlplane.graphql.secrets import SecretSubscription
from controlplane.graphql.services import related
from controlplane.graphql.types import ServiceDeployment
from controlplane.ports import MISSED, Wake
from controlplane.usecases.deps import CLUSTER, PIPELINE, SERVICE
from fleet.errors import NotFound

T = TypeVar("T")
D = TypeVar("D")


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
    """A cluster that changed; `payload` is null once it has gone."""

    id: strawberry.ID
    payload: Cluster | None


@strawberry.type
class PipelineDelta:
    """A pipeline that changed; `payload` is null once it has gone."""

    id: strawberry.ID
    payload: Pipeline | None


async def _service(context: Context, id: str) -> ServiceDeployment:
    row = await context.verbs.services.get(context.actor, id)
    return (await related(context, [row]))[0]


async def _cluster(context: Context, id: str) -> Cluster:
    return Cluster.of(await context.verbs.clusters.get(context.actor, id))


async def _pipeline(context: Context, id: str) -> Pipeline:
    return Pipeline.of(await context.verbs.pipelines.get(context.actor, id))


async def _deltas(
    info: Info,
    topic: str,
    id: str | None,
    look: Callable[[Context, str], Awaitable[T]],
    make: Callable[..., D],
    missed: Callable[[Context], Awaitable[Sequence[str]]] | None = None,
) -> AsyncGenerator[D, None]:
    """A delta for each change of one thing, or of all of a kind, that the caller may read.

    That something has gone is told of what was shown before, or to those who may see all.
    """
    context = info.context
    wakes = context.verbs.bus.subscribe(topic, MISSED)
    await context.recheck()
    shown: set[str] = set()
    if id is not None:
        await look(context, id)
        shown.add(id)
    keys = await missed(context) if missed else ()
    async for woken, key in _after(topic, keys, wakes):
        if woken == MISSED and id is not None:
            key = id
        if not key or (id is not None and key != id):
            continue
        await context.recheck()
        try:
            payload = await look(context, key)
            shown.add(key)
        except NotFound:
            if key not in (*shown, *keys) and context.actor.policy.visible(Kind(topic)):
                continue
            shown.discard(key)
            payload = None
        yield make(id=strawberry.ID(key), payload=payload)


async def _after(
    topic: str, keys: Sequence[str], wakes: AsyncIterator[Wake]
) -> AsyncGenerator[Wake, None]:
    """What was missed, then what comes."""
    for key in keys:
        yield topic, key
    async for wake in wakes:
        yield wake


@strawberry.type
class Subscription(AgentSubscription, FleetSubscription, SecretSubscription):
    @strawberry.subscription(
        description="Services as they change; one, or all. With `since`, the last `at` that a "
        "subscriber was told, first all that changed meanwhile; some of it may come twice."
    )
    def service_deployment_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ServiceDelta, None]:
        def make(**told: Any) -> ServiceDelta:
            return ServiceDelta(**told, at=info.context.verbs.clock.now())

        async def missed(context: Context) -> Sequence[str]:
            if since is None:
                return ()
            return await context.verbs.search.changed_since(context.actor, since)

        return _deltas(info, SERVICE, id, _service, make, missed)

    @strawberry.subscription(description="Clusters as they change; one, or all.")
    def cluster_delta(
        self, info: Info, id: strawberry.ID | None = None
    ) -> AsyncGenerator[ClusterDelta, None]:
        return _deltas(info, CLUSTER, id, _cluster, ClusterDelta)

    @strawberry.subscription(description="Pipelines as they change; one, or all.")
    def pipeline_delta(
        self, info: Info, id: strawberry.ID | None = None
    ) -> AsyncGenerator[PipelineDelta, None]:
        return _deltas(info, PIPELINE, id, _pipeline, PipelineDelta)
