"""Checks without writes whether a service is in sync: after a new revision without changes, and on
request.
"""

from collections import defaultdict
from dataclasses import replace

from fleet.errors import TowlineError
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import Api, ObjectKey
from syncagent.domain.ownership import SERVICE_LABEL
from syncagent.domain.services import Stamps
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools


def is_as_wanted(service: Service) -> bool:
    """Reports whether the newest desired state equals the applied one and all objects are in sync.
    Commit and signature of a bundle may differ if its content does not.
    """
    spec, current = service.desired.spec, service.current
    if spec is None or current is None or current.spec is None or service.spans is None:
        return False
    done = service.tried == current.sequence != service.desired.sequence
    if not done or service.failures or service.awaiting or service.asked_again:
        return False
    same = replace(spec, commit=current.spec.commit, attestation=current.spec.attestation)
    return (
        same == current.spec
        and not (spec.options.dry_run or spec.options.paused)
        and service.spans.keys() == service.owned.keys()
        and all(_is_settled(owned) for owned in service.owned.values())
    )


def note_as_wanted(tools: Tools, service: Service) -> None:
    """Records the newest desired state as applied."""
    target, now_ms = service.desired, tools.now_ms()
    tools.memory.begin(target, ())
    service.current, service.tried, service.counted = target, target.sequence, target.sequence
    service.written = service.pruned = 0
    service.adopted.clear()
    service.stamps = Stamps(service.stamps.received, now_ms, now_ms)
    tools.memory.stamp(service.id, service.stamps)


async def doubt_what_changed(tools: Tools, service: Service) -> None:
    """Marks changed objects for another apply; all of them if the versions cannot be read."""
    places: dict[tuple[Api, str], list[Owned]] = defaultdict(list)
    for owned in service.owned.values():
        places[owned.ref.api, owned.ref.namespace].append(owned)
    for (api, namespace), found in places.items():
        versions = await _versions(tools, api, namespace, service.id)
        for owned_object in found:
            if not owned_object.synced or versions.get(owned_object.key) != owned_object.version:
                owned_object.doubtful = True


async def _versions(
    tools: Tools, api: Api, namespace: str, service_id: str
) -> dict[ObjectKey, int]:
    try:
        await tools.require_cluster()
        return await tools.cluster.versions(api, namespace, f"{SERVICE_LABEL}={service_id}")
    except TowlineError:
        return {}


def _is_settled(owned: Owned) -> bool:
    return owned.synced and not owned.doubtful and not owned.leaving
