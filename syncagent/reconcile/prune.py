"""Taking objects away that a service no longer wants; only ever its own."""

import asyncio
from collections.abc import Iterable

from fleet.errors import TowlineError
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import ObjectKey
from syncagent.domain.ownership import may_prune, owner_of, release_patch
from syncagent.domain.waves import in_waves
from syncagent.reconcile.apply import problem_of
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools


def prunable(service: Service, wanted: Iterable[ObjectKey]) -> list[Owned]:
    """What the service has and does not want any more, as far as that is certain.

    Where an object of a kind could not be applied, none of that kind is taken away: it may be
    the old name of the one that failed. A failure of the whole takes away nothing.
    """
    if None in service.failures:
        return []
    uncertain = {key[:2] for key in service.failures if key is not None}
    keep = set(wanted)
    return [
        one for key, one in service.owned.items() if key not in keep and key[:2] not in uncertain
    ]


async def take_away(tools: Tools, service: Service, going: list[Owned], *, keep: bool) -> None:
    """Delete objects, last wave first; with `keep` only take our marks off them."""
    for wave in reversed(in_waves(going)):
        await asyncio.gather(*(_one(tools, service, one, keep) for one in wave))


def forget(tools: Tools, service: Service, one: Owned) -> None:
    """An object is no longer the service's."""
    tools.registry.drop(service, one)
    service.failures.pop(one.key, None)
    tools.memory.record((), gone=(one,))


async def _one(tools: Tools, service: Service, one: Owned, keep: bool) -> None:
    try:
        if await _is_gone(tools, service, one, keep):
            service.pruned += not one.leaving
            forget(tools, service, one)
        elif not one.leaving:
            service.pruned += 1
            one.leaving = True
    except TowlineError as error:
        service.failures[one.key] = problem_of(error, one.ref)


async def _is_gone(tools: Tools, service: Service, one: Owned, keep: bool) -> bool:
    live = await tools.cluster.get(one.ref)
    if live is None or owner_of(live) != service.id:
        return True
    if keep or not may_prune(live):
        await tools.cluster.merge(one.ref, release_patch())
        return True
    if live["metadata"].get("deletionTimestamp"):
        one.observe(live)
        return False
    return (await tools.cluster.delete(one.ref, live)).gone
