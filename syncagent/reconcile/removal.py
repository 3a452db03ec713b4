"""Removing a service: with its objects, or leaving them as they are."""

from syncagent.domain.services import Phase, Removal, Status
from syncagent.reconcile.prune import take_away
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools


async def remove(tools: Tools, service: Service) -> None:
    """Take the objects away; once the last has gone, the service is forgotten and reported."""
    await tools.require_cluster()
    service.busy = Phase.APPLYING
    service.failures.clear()
    orphan = service.desired.removal == Removal.ORPHAN
    await take_away(tools, service, list(service.owned.values()), keep=orphan)
    if not service.owned:
        tools.reports.status(removed(service))
        tools.memory.forget(service.id)
        tools.registry.remove(service)


def removed(service: Service) -> Status:
    """What is said of a service that is no more."""
    desired = service.desired
    return Status(
        desired.service_id,
        desired.sequence,
        "",
        Phase.REMOVED,
        (),
        service.stamps,
        pruned=service.pruned,
    )
