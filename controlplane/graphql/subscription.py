"""What can be watched. Each event asks for the caller's right anew."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

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
_SINCE = (
    "With `since`, the last `at` that a subscriber was told, first all that changed meanwhile; "
    "some of it may come twice."
)


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


async def _deltas(
    info: Info,
    topic: str,
    id: str | None,
    since: datetime | None,
    look: Callable[[Context, str], Awaitable[T]],
    make: Callable[..., D],
) -> AsyncGenerator[D, None]:
    """A delta for each change of one thing, or of all of a kind, that the caller may read; first
    for those that have changed since a moment.

    That something has gone is told of what was shown before, or to those who may see all.
    """
    context = info.context
    wakes = context.verbs.bus.subscribe(topic if id is None else (topic, id), MISSED)
    await context.recheck()
    keys = await _missed(context, Kind(topic), id, since, look)
    shown = {*keys, *([id] if id is not None else [])}
    async for woken, key in _after(topic, keys, wakes):
        if woken == MISSED and id is not None:
            key = id
        if not key:
            continue
        try:
            async with context.verbs.looks:
                await context.recheck()
                payload = await look(context, key)
            shown.add(key)
        except NotFound:
            if key not in shown and context.actor.policy.visible(Kind(topic)):
                continue
            shown.discard(key)
            payload = None
        yield make(id=strawberry.ID(key), payload=payload, at=context.verbs.clock.now())


async def _after(
    topic: str, keys: Sequence[str], wakes: AsyncIterator[Wake]
) -> AsyncGenerator[Wake, None]:
    """What was missed, then what comes."""
    for key in keys:
        yield topic, key
    async for wake in wakes:
        yield wake


async def _missed(
    context: Context,
    kind: Kind,
    id: str | None,
    since: datetime | None,
    look: Callable[[Context, str], Awaitable[T]],
) -> Sequence[str]:
    """What is to be told of at first. NotFound: one thing is asked for, and not there, nor was."""
    search = context.verbs.search
    if id is None:
        return await search.changed_since(context.actor, kind, since) if since else ()
    try:
        async with context.verbs.looks:
            await look(context, id)
    except NotFound:
        if since is None or id not in await search.changed_since(context.actor, kind, since):
            raise
    return [id] if since else ()


@strawberry.type
class Subscription(AgentSubscription, FleetSubscription, SecretSubscription):
    @strawberry.subscription(description=f"Services as they change; one, or all. {_SINCE}")
    def service_deployment_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ServiceDelta, None]:
        return _deltas(info, SERVICE, id, since, _service, ServiceDelta)

    @strawberry.subscription(description=f"Clusters as they change; one, or all. {_SINCE}")
    def cluster_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[ClusterDelta, None]:
        return _deltas(info, CLUSTER, id, since, _cluster, ClusterDelta)

    @strawberry.subscription(description=f"Pipelines as they change; one, or all. {_SINCE}")
    def pipeline_delta(
        self, info: Info, id: strawberry.ID | None = None, since: datetime | None = None
    ) -> AsyncGenerator[PipelineDelta, None]:
        return _deltas(info, PIPELINE, id, since, _pipeline, PipelineDelta)
