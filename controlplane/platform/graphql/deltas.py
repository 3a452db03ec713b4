"""Subscriptions to changes of resources, starting with the changes that a subscriber missed."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

import strawberry

from controlplane.authorization import ResourceKind
from controlplane.platform.graphql.context import ChangeFeed, Context, Info
from controlplane.platform.ports import LOST_WAKES, Bus, Wake
from core.errors import NotFound
from core.runtime.clock import Clock

T = TypeVar("T")
D = TypeVar("D")


async def deltas(
    info: Info,
    topic: str,
    id: str | None,
    since: datetime | None,
    load: Callable[[Info, str], Awaitable[T]],
    make: Callable[..., D],
) -> AsyncGenerator[D, None]:
    """Yields a delta for each change of one resource, or of every resource of a kind.

    Changes since `since` come first. The caller receives only resources that it may read. A
    deletion is sent if the caller received the resource before or may read every one. After a gap
    of the bus, the changes since the last one come, some of them again. LimitExceeded: too many.
    """
    context = info.context
    complete_until = context[Clock].now()
    wakes = context[Bus].subscribe(topic if id is None else (topic, id), LOST_WAKES)
    await context.recheck()
    keys = await _missed_keys(info, ResourceKind(topic), id, since, load)
    delivered = {*keys, *([id] if id is not None else [])}
    async for key in _missed_then_new(
        keys, _changed_keys(context, topic, id, complete_until, wakes)
    ):
        try:
            async with context.backend.read_slots:
                await context.recheck()
                payload = await load(info, key)
            delivered.add(key)
        except NotFound:
            if key not in delivered and context.actor.policy.visible(ResourceKind(topic)):
                continue
            delivered.discard(key)
            payload = None
        yield make(id=strawberry.ID(key), payload=payload, at=context[Clock].now())


async def _missed_then_new(
    missed: Sequence[str], new: AsyncIterator[str]
) -> AsyncGenerator[str, None]:
    for key in missed:
        yield key
    async for key in new:
        yield key


async def _changed_keys(
    context: Context,
    topic: str,
    id: str | None,
    complete_until: datetime,
    wakes: AsyncIterator[Wake],
) -> AsyncGenerator[str, None]:
    """Yields the keys of wakes, and after a gap those that changed since the last one.

    `complete_until`: no change before this time is missing.
    """
    async for wake_topic, key in wakes:
        if wake_topic != LOST_WAKES:
            yield key
        elif id is not None:
            yield id
        else:
            since, complete_until = complete_until, context[Clock].now()
            await context.recheck()
            feed, kind = context[ChangeFeed], ResourceKind(topic)
            for changed in await feed.changed_since(context.actor, kind, since):
                yield changed


async def _missed_keys(
    info: Info,
    kind: ResourceKind,
    id: str | None,
    since: datetime | None,
    load: Callable[[Info, str], Awaitable[T]],
) -> Sequence[str]:
    """Returns the missed keys. NotFound: the requested resource does not and did not exist."""
    context = info.context
    feed = context[ChangeFeed]
    if id is None:
        return await feed.changed_since(context.actor, kind, since) if since else ()
    try:
        async with context.backend.read_slots:
            await load(info, id)
    except NotFound:
        if since is None or id not in await feed.changed_since(context.actor, kind, since):
            raise
    return [id] if since else ()
