"""Sync of one service to its desired state, as an ordered list of small steps.
Each step may end the sync by raising; the progress so far is on disk.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from core.errors import NotFound
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ServiceFence
from core.spec.input_checks import InputCheck, InputVerdict
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.status import Phase, Problem
from core.spec.sync import DriftPolicy
from syncagent.domain.hooks import HookPhase
from syncagent.domain.objects import KubeObject
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import fingerprint
from syncagent.domain.sync_run import SyncRun, run_for
from syncagent.reconcile.applier import ManifestApplier
from syncagent.reconcile.bundle_plan import BundlePlan, plan_bundle
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.dry_run import plan_changes
from syncagent.reconcile.gates import SyncPaused, await_stage
from syncagent.reconcile.hook_runner import clean_up, record_terminated, run_hooks
from syncagent.reconcile.prune import DeletionTerms, delete_objects, prunable
from syncagent.reconcile.registry import ServiceState
from syncagent.reconcile.stages import SyncStage, hooks_at, stages_of
from syncagent.reconcile.sync_check import is_in_sync, record_in_sync


@dataclass(slots=True)
class SyncPass:
    """One pass of a sync to `target`, filled in step by step.
    `run`: its persistent state; None if there is only one stage.
    """

    service: ServiceState
    target: Desired
    spec: BundleSpec
    data: bytes = b""
    plan: BundlePlan = field(default_factory=BundlePlan)
    stages: list[SyncStage] = field(default_factory=list)
    run: SyncRun | None = None


Step = Callable[[ReconcileContext, SyncPass], Awaitable[None]]


async def sync_service(context: ReconcileContext, service: ServiceState) -> None:
    """Runs all steps. Raises the error that ended the sync early; failures of objects are on the
    service.
    """
    assert service.desired.spec is not None
    if is_in_sync(service):
        record_in_sync(context, service)
        return
    sync = SyncPass(service, service.desired, service.desired.spec)
    service.failures.clear()
    service.awaiting, service.planned, service.gate = (), None, None
    if service.counted != sync.target.sequence:
        service.counted, service.written, service.pruned = sync.target.sequence, 0, 0
        service.adopted.clear()
    _keep_terminated(context, sync)
    for step in STEPS:
        await step(context, sync)


async def load_bundle(context: ReconcileContext, sync: SyncPass) -> None:
    """Loads the bundle from disk or from the control plane."""
    sync.service.busy = Phase.FETCHING
    context.mark_changed(sync.service.id)
    sync.data = await load_or_fetch(context, sync.spec)
    if _is_newest(sync) and not sync.service.stamps.fetched:
        sync.service.stamps = replace(sync.service.stamps, fetched=context.clock.now())


async def plan(context: ReconcileContext, sync: SyncPass) -> None:
    """Plans the manifests; objects of other services are not written.
    A bundle with any error is refused as a whole.
    """
    await context.require_cluster()
    sync.service.busy = Phase.APPLYING
    checks = context.inputs.check(sync.target)
    sync.plan = await plan_bundle(context.cluster, sync.target, sync.data, context.fence)
    sync.data = b""
    _record_inputs(context, sync, (*checks, *sync.plan.images.values()))
    for problem in sync.plan.problems:
        sync.service.failures[problem.ref.key if problem.ref else None] = problem
    if sync.plan.problems:
        sync.service.tried = sync.target.sequence
        raise SyncPaused
    conflicting_objects = set()
    for key, manifest in sync.plan.manifests.items():
        if text := context.registry.conflicting_owner(sync.service, manifest.ref):
            sync.service.failures[key] = Problem(text, reason="Claimed", ref=manifest.ref)
            conflicting_objects.add(key)
    _record_conflicts(
        context, sync.service, frozenset(() if sync.spec.dry_run else conflicting_objects)
    )


def _record_inputs(
    context: ReconcileContext, sync: SyncPass, checks: tuple[InputCheck, ...]
) -> None:
    """Records the checks for the next report, with the time at which they first had this result."""
    if not checks:
        return
    before = sync.service.inputs
    verdict = InputVerdict(sync.spec.digest, context.clock.now(), checks)
    is_known = before is not None and replace(before, at=verdict.at) == verdict
    sync.service.inputs = before if is_known else verdict


async def store_intent(context: ReconcileContext, sync: SyncPass) -> None:
    """Stores the objects that may be created, before any write."""
    if sync.spec.dry_run:
        return
    service = sync.service
    _plan_stages(context, sync)
    created = [
        manifest.ref
        for key, manifest in sync.plan.manifests.items()
        if key not in service.owned and _is_not_claimed(sync, key)
    ]
    if service.current != sync.target or created:
        context.memory.save_apply_intent(sync.target, created)
    for ref in created:
        context.registry.add(service, OwnedObject.intended(service.id, ref))
    service.current, service.spans = sync.target, sync.plan.spans


async def prepare_namespace(context: ReconcileContext, sync: SyncPass) -> None:
    """Creates the service's namespace or sets the requested labels. The namespace is never
    pruned. A fence without the kind Namespace leaves it to the cluster's operator.
    """
    options = sync.spec.options
    if not options.create_namespace or not sync.spec.namespace:
        return
    ref = ObjectRef("", "v1", "Namespace", "", sync.spec.namespace)
    if ref.key in sync.plan.manifests or not _is_inside(context.fence, ref):
        return
    body = _namespace_object(sync.spec)
    namespace_key = (sync.spec.namespace, fingerprint(body))
    if namespace_key in context.registry.namespaces:
        return
    live = await context.cluster.get(ref)
    if live is None or not _has_metadata(live, body["metadata"]):
        await context.cluster.apply(
            ref, body, force=not options.fail_on_conflict, dry_run=sync.spec.dry_run
        )
    if not sync.spec.dry_run:
        context.registry.namespaces.add(namespace_key)


async def plan_dry_run(context: ReconcileContext, sync: SyncPass) -> None:
    """Ends a dry run with the list of planned changes."""
    if not sync.spec.dry_run:
        return
    service, manifests = sync.service, sync.plan.manifests
    manifests_to_apply = [
        manifest for key, manifest in manifests.items() if _is_not_claimed(sync, key)
    ]
    changes = await plan_changes(context, service, sync.plan, sync.spec, manifests_to_apply)
    deleted = [] if sync.spec.options.keep_on_prune else prunable(service, manifests)
    changes += [PlannedChange(owned.ref, PlannedAction.DELETE) for owned in deleted]
    service.planned = tuple(changes)
    service.tried = sync.target.sequence
    raise SyncPaused


async def run_stages(context: ReconcileContext, sync: SyncPass) -> None:
    """Applies changed objects and runs hooks, stage by stage; waits for health between stages."""
    for number, stage in enumerate(sync.stages, 1):
        if sync.service.stopped == sync.target.sequence:
            raise SyncPaused
        await _apply_stage(context, sync, stage)
        if sync.run is None:
            continue
        service = sync.service
        running = await run_hooks(context, service, sync.run, stage)
        last = number == len(sync.stages)
        awaited = [] if last else [manifest.key for manifest in stage.manifests]
        if await await_stage(context, service, sync.run, stage.name, awaited, running):
            await _fail_sync(context, sync)


async def prune(context: ReconcileContext, sync: SyncPass) -> None:
    """Deletes objects that the bundle no longer contains, unless they need confirmation."""
    service, options = sync.service, sync.spec.options
    deleted = prunable(service, sync.plan.manifests)
    # A confirmation to recreate an object does not cover the prunable objects.
    hooks = (hook.ref.key for hook in sync.plan.hooks)
    confirmed = sync.target.agreed.difference(sync.plan.manifests, hooks)
    terms = DeletionTerms(options.keep_on_prune, True, confirmed, options.deletion_budget)
    service.awaiting += await delete_objects(context, service, deleted, terms)


async def finish(context: ReconcileContext, sync: SyncPass) -> None:
    """Ends the sync; records the time if everything was applied."""
    service = sync.service
    service.tried = sync.target.sequence
    if service.failures and sync.run is not None:
        await _fail_sync(context, sync)
    if sync.run is not None:
        keep = [hook.ref.key for hook in sync.plan.hooks]
        await clean_up(context, service, sync.run, keep)
    if _is_newest(sync) and not _is_open(service) and not service.stamps.applied:
        service.stamps = replace(service.stamps, applied=context.clock.now())
        context.memory.save_stage_times(service.id, service.stamps)


STEPS: tuple[Step, ...] = (
    load_bundle,
    plan,
    store_intent,
    prepare_namespace,
    plan_dry_run,
    run_stages,
    prune,
    finish,
)


def _record_conflicts(
    context: ReconcileContext, service: ServiceState, conflicting_objects: frozenset[ObjectKey]
) -> None:
    """Records objects of conflicting owners, and triggers owners of objects that are no longer
    wanted.
    """
    for key in service.conflicting_objects - conflicting_objects:
        owner = context.registry.owner_of_key(key)
        if owner is not None and owner is not service:
            context.retry_now(owner)
    service.conflicting_objects = conflicting_objects


def _keep_terminated(context: ReconcileContext, sync: SyncPass) -> None:
    """Keeps a sync terminated after a restart, unless a person has requested it again."""
    service, runs = sync.service, context.memory.runs
    run = runs.get(service.id)
    if run is None or not run.stopped or run.sequence != sync.target.sequence:
        return
    if not service.retry_requested:
        record_terminated(service)
        raise SyncPaused
    run.again(run.sequence)
    runs.keep(run)


def _plan_stages(context: ReconcileContext, sync: SyncPass) -> None:
    """Plans the stages, and loads the persistent state of the run."""
    service, spec = sync.service, sync.spec
    hooks = sync.plan.hooks
    manifests = [
        manifest for key, manifest in sync.plan.manifests.items() if _is_not_claimed(sync, key)
    ]
    if not hooks and len({manifest.wave[0] for manifest in manifests}) <= 1:
        sync.stages = [SyncStage("", HookPhase.SYNC, manifests)]
        service.retry_requested = False
        return
    stored, first = context.memory.runs.get(service.id), service.current is None
    run = run_for(stored, service.id, spec.digest, sync.target.sequence, first)
    if service.retry_requested:
        run.again(sync.target.sequence)
    service.retry_requested = False
    context.memory.runs.keep(run)
    sync.run, sync.stages = run, stages_of(manifests, hooks, first=run.first)


async def _apply_stage(context: ReconcileContext, sync: SyncPass, stage: SyncStage) -> None:
    service = sync.service
    stale = [
        manifest
        for manifest in stage.manifests
        if not _is_applied(sync, manifest.digest, manifest.key)
    ]
    if not stale:
        return
    await ManifestApplier(context, service, sync.plan, sync.target, sync.spec).write(stale)
    context.memory.save_objects(service.owned[manifest.key] for manifest in stale)


async def _fail_sync(context: ReconcileContext, sync: SyncPass) -> None:
    """Ends a failed sync: runs its sync-fail hooks, and nothing after them."""
    assert sync.run is not None
    service, run = sync.service, sync.run
    service.tried = sync.target.sequence
    run.broken = True
    context.memory.runs.keep(run)
    for stage in hooks_at(HookPhase.SYNC_FAIL, sync.plan.hooks, first=run.first):
        if await run_hooks(context, service, run, stage):
            break
    raise SyncPaused


def _is_open(service: ServiceState) -> bool:
    """Reports whether work or confirmations are left."""
    return bool(service.failures or service.awaiting) or any(
        owned.leaving for owned in service.owned.values()
    )


async def load_or_fetch(context: ReconcileContext, spec: BundleSpec) -> bytes:
    """Loads a bundle from disk, or fetches it. LinkDown, NotFound, Unavailable."""
    if context.bundles.has(spec.digest):
        try:
            return await context.bundles.load(spec.digest)
        except NotFound:
            pass
    data = await context.fetcher.fetch(spec.digest, spec.size)
    await context.bundles.save(spec.digest, data)
    return data


def _is_newest(sync: SyncPass) -> bool:
    """Reports whether the desired state is unchanged since the sync began; times belong to the
    newest.
    """
    return sync.service.desired is sync.target


def _is_not_claimed(sync: SyncPass, key: ObjectKey) -> bool:
    failure = sync.service.failures.get(key)
    return failure is None or failure.reason != "Claimed"


def _is_applied(sync: SyncPass, digest: str, key: ObjectKey) -> bool:
    """Reports whether an object needs no apply; drift that must not be healed stays."""
    owned = sync.service.owned.get(key)
    if owned is None or owned.applied != digest or owned.needs_apply or owned.leaving:
        return False
    return owned.synced or sync.spec.options.drift != DriftPolicy.HEAL


def _is_inside(fence: ServiceFence | None, ref: ObjectRef) -> bool:
    return fence is None or not any(rules.refusal(ref) for rules in fence.rules)


def _namespace_object(spec: BundleSpec) -> KubeObject:
    metadata: KubeObject = {"name": spec.namespace}
    if spec.options.namespace_labels:
        metadata["labels"] = dict(spec.options.namespace_labels)
    if spec.options.namespace_annotations:
        metadata["annotations"] = dict(spec.options.namespace_annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _has_metadata(live: KubeObject, requested: KubeObject) -> bool:
    """Reports whether a live namespace has the requested labels and annotations."""
    return all(
        (live["metadata"].get(part) or {}).get(name) == value
        for part in ("labels", "annotations")
        for name, value in (requested.get(part) or {}).items()
    )
