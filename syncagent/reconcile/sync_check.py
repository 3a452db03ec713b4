"""Checks without writes whether a service is in sync: after a new revision without changes, and on
request.
"""

from collections import defaultdict
from dataclasses import replace

from core.errors import TowlineError
from core.spec.objects import GroupVersionKind, ObjectKey
from core.spec.status import StageTimes
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import SERVICE_LABEL
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.registry import ServiceState


def is_in_sync(service: ServiceState) -> bool:
    """Reports whether the newest desired state equals the applied one and all objects are in sync.
    Commit and signature of a bundle may differ if its content does not.
    """
    spec, current = service.desired.spec, service.current
    if spec is None or current is None or current.spec is None or service.spans is None:
        return False
    done = service.tried == current.sequence != service.desired.sequence
    if not done or service.failures or service.awaiting or service.retry_requested:
        return False
    same = replace(spec, commit=current.spec.commit, attestation=current.spec.attestation)
    return (
        same == current.spec
        and service.desired.fence == current.fence
        and not (spec.dry_run or spec.paused)
        and service.spans.keys() == service.owned.keys()
        and all(_is_settled(owned) for owned in service.owned.values())
    )


def record_in_sync(context: ReconcileContext, service: ServiceState) -> None:
    """Records the newest desired state as applied."""
    target, now = service.desired, context.clock.now()
    context.memory.save_apply_intent(target, ())
    service.current, service.tried, service.counted = target, target.sequence, target.sequence
    service.written = service.pruned = 0
    service.adopted.clear()
    service.stamps = StageTimes(service.stamps.received, now, now)
    context.memory.save_stage_times(service.id, service.stamps)


async def mark_changed_objects(context: ReconcileContext, service: ServiceState) -> None:
    """Marks changed objects for another apply; all of them if the versions cannot be read."""
    places: dict[tuple[GroupVersionKind, str], list[OwnedObject]] = defaultdict(list)
    for owned in service.owned.values():
        places[owned.ref.api, owned.ref.namespace].append(owned)
    for (api, namespace), found in places.items():
        versions = await _versions(context, api, namespace, service.id)
        for owned_object in found:
            if not owned_object.synced or versions.get(owned_object.key) != owned_object.version:
                owned_object.needs_apply = True


async def _versions(
    context: ReconcileContext, api: GroupVersionKind, namespace: str, service_id: str
) -> dict[ObjectKey, int]:
    try:
        await context.require_cluster()
        return await context.cluster.versions(api, namespace, f"{SERVICE_LABEL}={service_id}")
    except TowlineError:
        return {}


def _is_settled(owned: OwnedObject) -> bool:
    return owned.synced and not owned.needs_apply and not owned.leaving
