"""Drift healing: keeps owned objects in their applied state.
Each observation is compared with the result of our own last apply. A foreign change is reverted at
once. A recurring one is reverted at growing intervals, so that two controllers never overload the
API server.
"""

from collections.abc import Sequence

from core.errors import TowlineError, Unavailable
from core.spec.objects import ObjectKey
from core.spec.reports.drift import DriftFound
from core.spec.status import Problem
from core.spec.sync import DriftPolicy
from syncagent.domain.directives import DeletionPolicy, directives_of
from syncagent.domain.drift import (
    changed_paths,
    field_changes,
    foreign_manager,
    format_path,
    project,
)
from syncagent.domain.events import ObjectGone, ObjectSeen, Observation
from syncagent.domain.ignored_differences import owned_part
from syncagent.domain.objects import KubeObject, metadata_of, resource_version
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import SERVICE_LABEL, ObjectManifest, fingerprint
from syncagent.reconcile import sealed
from syncagent.reconcile.applier import apply_manifest, problem_of, record_apply
from syncagent.reconcile.bundle_plan import manifest_for
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.prune import forget
from syncagent.reconcile.registry import ServiceState

_HEAL_WINDOW_S = 60.0
_FREE_HEALS = 5
_MAX_DELAY_S = 60.0
_MAX_PATHS = 32
# Work after an object that has just been deleted need not wait.
_SOON_S = 0.01


async def process_observation(
    context: ReconcileContext, service: ServiceState, key: ObjectKey, observation: Observation
) -> float:
    """Processes one observation; returns the seconds until the next check, 0 for none."""
    owned = service.owned.get(key)
    if (
        owned is None
        or isinstance(observation, ObjectGone)
        and resource_version(observation.live) < owned.version
    ):
        return 0.0
    if isinstance(observation, ObjectGone):
        return await _handle_missing_object(context, service, owned)
    if not isinstance(observation, ObjectSeen):
        return 0.0
    if resource_version(observation.live) > owned.version:
        return await _handle_changed_object(context, service, owned, observation)
    if not owned.seen and resource_version(observation.live) == owned.version:
        owned.observe(observation.live, service.rules)
        context.diagnostics.schedule_event_check(service, owned)
    return 0.0


def heal_delay(heals: Sequence[float], now: float) -> float:
    """Seconds to wait before the next heal, from the times of the recent ones."""
    recent = [at for at in heals if now - at < _HEAL_WINDOW_S]
    if len(recent) < _FREE_HEALS:
        return 0.0
    wait = min(_MAX_DELAY_S, 2.0 ** (len(recent) - _FREE_HEALS))
    return max(0.0, recent[-1] + wait - now)


async def _handle_missing_object(
    context: ReconcileContext, service: ServiceState, owned: OwnedObject
) -> float:
    """Handles an owned object that is gone, or has lost our label."""
    if owned.leaving:
        forget(context, service, owned)
        return _SOON_S
    if not owned.uid:
        return 0.0
    context.registry.disown(owned.uid)
    owned.mark_missing()
    manifest = await manifest_for(context.cluster, context.bundles, service, owned.key)
    if manifest is None:
        forget(context, service, owned)
        return 0.0
    if manifest.digest != owned.applied:
        owned.needs_apply = True
        return 0.0
    return await _handle_drift(context, service, manifest, owned, None)


async def _handle_changed_object(
    context: ReconcileContext, service: ServiceState, owned: OwnedObject, observation: ObjectSeen
) -> float:
    """Processes a changed object; a later deletion arrives as its own observation."""
    if not observation.partial or service.current is None:
        # Without a bundle, as after a lost disk, there is nothing to compare the content with.
        return await _compare_with_manifest(context, service, owned, observation.live)
    live = await context.cluster.get(owned.ref)
    if live is None:
        return 0.0
    wait = await _compare_with_manifest(context, service, owned, live)
    if owned.synced:
        # This avoids another read after the next start.
        context.memory.save_objects((owned,))
    return wait


async def _compare_with_manifest(
    context: ReconcileContext, service: ServiceState, owned: OwnedObject, live: KubeObject
) -> float:
    before = owned.uid
    owned.observe(live, service.rules)
    context.diagnostics.schedule_event_check(service, owned)
    if owned.uid != before:
        context.registry.disown(before)
        context.registry.identify(owned)
        context.watch(owned.ref)
    if owned.leaving or not owned.live or metadata_of(live).get("deletionTimestamp"):
        return 0.0
    manifest = await manifest_for(context.cluster, context.bundles, service, owned.key)
    if manifest is None:
        owned.needs_apply = _may_be_pruned(service, owned, live)
        return 0.0
    if manifest.digest != owned.applied:
        return 0.0
    if sealed.live_state(context, manifest, live) == owned.live:
        owned.synced, owned.reported_drift = True, ""
        return 0.0
    return await _handle_drift(context, service, manifest, owned, live)


def _may_be_pruned(service: ServiceState, owned: OwnedObject, live: KubeObject) -> bool:
    """Reports whether an object that waits for confirmation now has an annotation that permits its
    deletion.
    """
    return owned.ref in service.awaiting and directives_of(live).prune == DeletionPolicy.AGREED


async def _handle_drift(
    context: ReconcileContext,
    service: ServiceState,
    manifest: ObjectManifest,
    owned: OwnedObject,
    live: KubeObject | None,
) -> float:
    owned.synced = False
    spec = service.desired.spec
    if spec is None or spec.paused or spec.dry_run:
        return 0.0
    if spec.options.drift == DriftPolicy.IGNORE:
        return 0.0
    if spec.options.drift == DriftPolicy.REPORT:
        state = fingerprint(project(owned_part(manifest, live), live))
        if owned.reported_drift != state:
            await _report_unhealed_drift(context, service, manifest, live)
            owned.reported_drift = state
        return 0.0
    wait = heal_delay(owned.heals, context.clock.monotonic())
    if wait:
        _record_contention(service, owned, live)
        owned.needs_apply = True
        return wait
    await _heal(context, service, manifest, live)
    return 0.0


async def _heal(
    context: ReconcileContext,
    service: ServiceState,
    manifest: ObjectManifest,
    live: KubeObject | None,
) -> None:
    """Applies the manifest again and reports the reverted changes."""
    assert service.current is not None and service.current.spec is not None
    owned = service.owned[manifest.key]
    owned.needs_apply = True
    try:
        healed = await apply_manifest(context, service.current.spec.options, manifest)
    except Unavailable:
        raise
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return
    changed = record_apply(context, service, manifest, healed)
    context.watch(owned.ref)
    context.memory.save_objects((owned,))
    if changed:
        _report_drift(context, manifest, live, healed, healed_now=True)
        who = (foreign_manager(live, ()) if live else "") or "somebody"
        what = "changed" if live else "deleted"
        text = f"{what} by {who}; restored by service {service.current.spec.name}"
        context.event_recorder.add(owned.ref, owned.uid, "DriftHealed", text, warns=False)


async def _report_unhealed_drift(
    context: ReconcileContext,
    service: ServiceState,
    manifest: ObjectManifest,
    live: KubeObject | None,
) -> None:
    """Reports the changes that an apply would revert, without reverting them."""
    assert service.current is not None and service.current.spec is not None
    would_be = live
    if live is not None:
        force, body = not service.current.spec.options.fail_on_conflict, owned_part(manifest, live)
        would_be = await sealed.apply(context, manifest, body, force=force, dry_run=True)
    _report_drift(context, manifest, live, would_be, healed_now=False)


def _report_drift(
    context: ReconcileContext,
    manifest: ObjectManifest,
    live: KubeObject | None,
    target: KubeObject | None,
    *,
    healed_now: bool,
) -> None:
    service_id = manifest.body["metadata"]["labels"][SERVICE_LABEL]
    if live is None or target is None:
        context.reports.drift(DriftFound(service_id, manifest.ref, "", (), True, healed_now))
        return

    def projected(state: KubeObject) -> KubeObject:
        return project(owned_part(manifest, live), state)

    paths = changed_paths(projected(live), projected(target))
    shown = tuple(sorted(format_path(path) for path in paths)[:_MAX_PATHS])
    manager = foreign_manager(live, paths)
    changes = field_changes(projected(target), projected(live))
    context.reports.drift(
        DriftFound(service_id, manifest.ref, manager, shown, False, healed_now, changes)
    )


def _record_contention(service: ServiceState, owned: OwnedObject, live: KubeObject | None) -> None:
    who = (foreign_manager(live, ()) if live else "") or "somebody"
    text = f"{who} changes it repeatedly; Towline restores it at growing intervals"
    service.failures[owned.key] = Problem(text, reason="Contended", ref=owned.ref)
