"""Subscriptions to changes of resources, starting with the changes that a subscriber missed."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

import strawberry

from controlplane.domain.access import ResourceKind
from controlplane.graphql.context import Context, Info
from controlplane.ports import LOST_WAKES, Wake
from core.errors import NotFound

T = TypeVar("T")
D = TypeVar("D")


async def deltas(
    info: Info,
    topic: str,
    id: str | None,
    since: datetime | None,
    load: Callable[[Context, str], Awaitable[T]],
    make: Callable[..., D],
) -> AsyncGenerator[D, None]:
    """Yields a delta for each change of one resource, or of every resource of a kind.

    Changes since `since` come first. The caller receives only resources that it may read. A
    deletion is sent if the caller received the resource before or may read every one.
    """
    context = info.context
    wakes = context.verbs.bus.subscribe(topic if id is None else (topic, id), LOST_WAKES)
    await context.recheck()
    keys = await _missed_keys(context, ResourceKind(topic), id, since, load)
    shown = {*keys, *([id] if id is not None else [])}
    async for woken, key in _missed_then_new(topic, keys, wakes):
        if woken == LOST_WAKES and id is not None:
            key = id
        if not key:
            continue
        try:
            async with context.verbs.read_slots:
                await context.recheck()
                payload = await load(context, key)
            shown.add(key)
        except NotFound:
            if key not in shown and context.actor.policy.visible(ResourceKind(topic)):
                continue
            shown.discard(key)
            payload = None
        yield make(id=strawberry.ID(key), payload=payload, at=context.verbs.clock.now())


async def _missed_then_new(
    topic: str, keys: Sequence[str], wakes: AsyncIterator[Wake]
) -> AsyncGenerator[Wake, None]:
    """Yields missed keys, then new wakes."""
    for key in keys:
        yield topic, key
    async for wake in wakes:
        yield wake


async def _missed_keys(
    context: Context,
    kind: ResourceKind,
    id: str | None,
    since: datetime | None,
    load: Callable[[Context, str], Awaitable[T]],
) -> Sequence[str]:
    """Returns the missed keys. NotFound: the requested resource does not and did not exist."""
    search = context.verbs.search
    if id is None:
        return await search.changed_since(context.actor, kind, since) if since else ()
    try:
        async with context.verbs.read_slots:
            await load(context, id)
    except NotFound:
        if since is None or id not in await search.changed_since(context.actor, kind, since):
            raise
    return [id] if since else ()
