"""Removal of a service, with its objects or without."""

from core.errors import NotFound
from core.spec.status import Phase, SyncStatus
from core.spec.sync import Removal
from syncagent.domain.hooks import HookPhase
from syncagent.domain.sync_run import SyncRun, run_for
from syncagent.reconcile.bundle_plan import BundlePlan, plan_bundle
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.gates import SyncPaused, await_stage
from syncagent.reconcile.hook_runner import clean_up, run_hooks
from syncagent.reconcile.prune import DeletionTerms, delete_objects
from syncagent.reconcile.registry import ServiceState
from syncagent.reconcile.stages import hooks_at


async def remove_service(context: ReconcileContext, service: ServiceState) -> None:
    """Deletes the objects of a service; after the last one is gone, deletes and reports the
    service.
    """
    await context.require_cluster()
    service.busy = Phase.APPLYING
    service.failures.clear()
    service.gate, service.awaiting = None, ()
    orphan = service.desired.removal == Removal.ORPHAN
    plan = BundlePlan() if orphan else await _last_plan(context, service)
    run = _load_run(context, service)
    await _run_phase_hooks(context, service, run, plan, HookPhase.PRE_DELETE)
    terms = DeletionTerms(keep=orphan, prunes=False, confirmed=service.desired.agreed)
    service.awaiting = await delete_objects(context, service, list(service.owned.values()), terms)
    if service.owned:
        return
    await _run_phase_hooks(context, service, run, plan, HookPhase.POST_DELETE)
    await clean_up(context, service, run)
    if service.awaiting:
        return
    context.reports.status(removed_status(service))
    context.memory.delete_service(service.id)
    context.registry.remove(service)


def removed_status(service: ServiceState) -> SyncStatus:
    """Builds the final status of a removed service."""
    desired = service.desired
    return SyncStatus(
        desired.service_id,
        desired.sequence,
        "",
        Phase.REMOVED,
        (),
        service.stamps,
        pruned=service.pruned,
    )


def _load_run(context: ReconcileContext, service: ServiceState) -> SyncRun:
    stored = context.memory.runs.get(service.id)
    return run_for(stored, service.id, "", service.desired.sequence, first=False)


async def _last_plan(context: ReconcileContext, service: ServiceState) -> BundlePlan:
    """Returns the plan applied last, for its hooks; empty if it is no longer on disk."""
    if service.current is None or service.current.spec is None:
        return BundlePlan()
    try:
        data = await context.bundles.load(service.current.spec.digest)
    except NotFound:
        return BundlePlan()
    return await plan_bundle(context.cluster, service.current, data)


async def _run_phase_hooks(
    context: ReconcileContext,
    service: ServiceState,
    run: SyncRun,
    plan: BundlePlan,
    phase: HookPhase,
) -> None:
    """Runs the hooks of one phase; pauses the removal while they run or after a failure."""
    for stage in hooks_at(phase, plan.hooks, first=False):
        running = await run_hooks(context, service, run, stage)
        if await await_stage(context, service, run, stage.name, (), running):
            raise SyncPaused
