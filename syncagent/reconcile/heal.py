"""Drift healing: keeps owned objects in their applied state.
Each observation is compared with the result of our own last apply. A foreign change is reverted at
once. A recurring one is reverted at growing intervals, so that two controllers never overload the
API server.
"""

from collections.abc import Sequence

from fleet.errors import TowlineError, Unavailable
from syncagent.domain.directives import Leave, directives_of
from syncagent.domain.drift import (
    changed_paths,
    field_changes,
    foreign_manager,
    format_path,
    project,
)
from syncagent.domain.events import DriftFound, Gone, Seen, Sighting
from syncagent.domain.inventory import Owned
from syncagent.domain.leaving import kept
from syncagent.domain.objects import KubeObject, ObjectKey, metadata_of, resource_version
from syncagent.domain.ownership import SERVICE_LABEL, Manifest, fingerprint
from syncagent.domain.services import DriftPolicy, Problem
from syncagent.reconcile import sealed
from syncagent.reconcile.apply import note, problem_of, send
from syncagent.reconcile.manifests import manifest_for
from syncagent.reconcile.prune import forget
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

_WINDOW_S = 60.0
_FREE_HEALS = 5
_SLOWEST_S = 60.0
_MAX_PATHS = 32
# Work after an object that has just been deleted need not wait.
_SOON_S = 0.01


async def look(tools: Tools, service: Service, key: ObjectKey, sighting: Sighting) -> float:
    """Processes one observation; returns the seconds until the next check, 0 for none."""
    owned = service.owned.get(key)
    if (
        owned is None
        or isinstance(sighting, Gone)
        and resource_version(sighting.live) < owned.version
    ):
        return 0.0
    if isinstance(sighting, Gone):
        return await _lost(tools, service, owned)
    if not isinstance(sighting, Seen):
        return 0.0
    if resource_version(sighting.live) > owned.version:
        return await _changed(tools, service, owned, sighting)
    if not owned.seen and resource_version(sighting.live) == owned.version:
        owned.observe(sighting.live, service.rules)
    return 0.0


def pace(heals: Sequence[float], now: float) -> float:
    """Seconds to wait before the next heal, from the times of the recent ones."""
    recent = [at for at in heals if now - at < _WINDOW_S]
    if len(recent) < _FREE_HEALS:
        return 0.0
    wait = min(_SLOWEST_S, 2.0 ** (len(recent) - _FREE_HEALS))
    return max(0.0, recent[-1] + wait - now)


async def _lost(tools: Tools, service: Service, owned: Owned) -> float:
    """Handles an owned object that is gone, or has lost our label."""
    if owned.leaving:
        forget(tools, service, owned)
        return _SOON_S
    if not owned.uid:
        return 0.0
    tools.registry.disown(owned.uid)
    owned.vanish()
    manifest = await manifest_for(tools.cluster, tools.bundles, service, owned.key)
    if manifest is None:
        forget(tools, service, owned)
        return 0.0
    if manifest.digest != owned.applied:
        owned.doubtful = True
        return 0.0
    return await _react(tools, service, manifest, owned, None)


async def _changed(tools: Tools, service: Service, owned: Owned, sighting: Seen) -> float:
    """Processes a changed object; a later deletion arrives as its own observation."""
    if not sighting.partial:
        return await _seen(tools, service, owned, sighting.live)
    live = await tools.cluster.get(owned.ref)
    if live is None:
        return 0.0
    wait = await _seen(tools, service, owned, live)
    if owned.synced:
        # This avoids another read after the next start.
        tools.memory.record((owned,))
    return wait


async def _seen(tools: Tools, service: Service, owned: Owned, live: KubeObject) -> float:
    before = owned.uid
    owned.observe(live, service.rules)
    tools.evidence.suspect(service, owned)
    if owned.uid != before:
        tools.registry.disown(before)
        tools.registry.identify(owned)
        tools.watch(owned.ref)
    if owned.leaving or not owned.live or metadata_of(live).get("deletionTimestamp"):
        return 0.0
    manifest = await manifest_for(tools.cluster, tools.bundles, service, owned.key)
    if manifest is None:
        owned.doubtful = _may_be_pruned(service, owned, live)
        return 0.0
    if manifest.digest != owned.applied:
        return 0.0
    if sealed.live_state(tools, manifest, live) == owned.live:
        owned.synced, owned.told = True, ""
        return 0.0
    return await _react(tools, service, manifest, owned, live)


def _may_be_pruned(service: Service, owned: Owned, live: KubeObject) -> bool:
    """Reports whether an object that waits for confirmation now has an annotation that permits its
    deletion.
    """
    return owned.ref in service.awaiting and directives_of(live).prune == Leave.AGREED


async def _react(
    tools: Tools, service: Service, manifest: Manifest, owned: Owned, live: KubeObject | None
) -> float:
    owned.synced = False
    options = service.desired.spec.options if service.desired.spec else None
    if options is None or options.paused or options.dry_run:
        return 0.0
    if options.drift == DriftPolicy.IGNORE:
        return 0.0
    if options.drift == DriftPolicy.REPORT:
        state = fingerprint(project(kept(manifest, live), live))
        if owned.told != state:
            await _tell(tools, service, manifest, live)
            owned.told = state
        return 0.0
    wait = pace(owned.heals, tools.clock.monotonic())
    if wait:
        _note_fight(service, owned, live)
        owned.doubtful = True
        return wait
    await _heal(tools, service, manifest, live)
    return 0.0


async def _heal(
    tools: Tools, service: Service, manifest: Manifest, live: KubeObject | None
) -> None:
    """Applies the manifest again and reports the reverted changes."""
    assert service.current is not None and service.current.spec is not None
    owned = service.owned[manifest.key]
    owned.doubtful = True
    try:
        healed = await send(tools, service.current.spec.options, manifest)
    except Unavailable:
        raise
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return
    changed = note(tools, service, manifest, healed)
    tools.watch(owned.ref)
    tools.memory.record((owned,))
    if changed:
        _report(tools, manifest, live, healed, healed_now=True)
        who = (foreign_manager(live, ()) if live else "") or "somebody"
        what = "changed" if live else "deleted"
        text = f"{what} by {who}; restored by service {service.current.spec.name}"
        tools.notices.add(owned.ref, owned.uid, "DriftHealed", text, warns=False)


async def _tell(
    tools: Tools, service: Service, manifest: Manifest, live: KubeObject | None
) -> None:
    """Reports the changes that an apply would revert, without reverting them."""
    assert service.current is not None and service.current.spec is not None
    would_be = live
    if live is not None:
        force, body = service.current.spec.options.force, kept(manifest, live)
        would_be = await sealed.apply(tools, manifest, body, force=force, dry_run=True)
    _report(tools, manifest, live, would_be, healed_now=False)


def _report(
    tools: Tools,
    manifest: Manifest,
    live: KubeObject | None,
    right: KubeObject | None,
    *,
    healed_now: bool,
) -> None:
    service_id = manifest.body["metadata"]["labels"][SERVICE_LABEL]
    if live is None or right is None:
        tools.reports.drift(DriftFound(service_id, manifest.ref, "", (), True, healed_now))
        return

    def projected(state: KubeObject) -> KubeObject:
        return project(kept(manifest, live), state)

    paths = changed_paths(projected(live), projected(right))
    shown = tuple(sorted(format_path(path) for path in paths)[:_MAX_PATHS])
    manager = foreign_manager(live, paths)
    changes = field_changes(projected(right), projected(live))
    tools.reports.drift(
        DriftFound(service_id, manifest.ref, manager, shown, False, healed_now, changes)
    )


def _note_fight(service: Service, owned: Owned, live: KubeObject | None) -> None:
    who = (foreign_manager(live, ()) if live else "") or "somebody"
    text = f"{who} changes it repeatedly; Towline restores it at growing intervals"
    service.failures[owned.key] = Problem(text, "Contended", owned.ref)
