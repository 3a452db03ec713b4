"""Sync of one service to its desired state, as an ordered list of small steps.
Each step may end the sync by raising; the progress so far is on disk.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from fleet.errors import NotFound
from syncagent.domain.changes import Change, PlannedChange
from syncagent.domain.hooks import Moment
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import KubeObject, ObjectKey, ObjectRef
from syncagent.domain.ownership import fingerprint
from syncagent.domain.runs import Run, run_for
from syncagent.domain.services import Desired, DriftPolicy, Phase, Problem, ServiceSpec
from syncagent.reconcile.apply import Writer
from syncagent.reconcile.checking import is_as_wanted, note_as_wanted
from syncagent.reconcile.gates import Ended, await_stage
from syncagent.reconcile.hooking import clean_up, note_stopped, run_hooks
from syncagent.reconcile.manifests import Plan, plan_bundle
from syncagent.reconcile.planning import plan_changes
from syncagent.reconcile.prune import Terms, prunable, take_away
from syncagent.reconcile.registry import Service
from syncagent.reconcile.stages import Stage, hooks_at, stages_of
from syncagent.reconcile.tools import Tools


@dataclass(slots=True)
class Walk:
    """One pass of a sync to `target`, filled in step by step.
    `run`: its persistent state; None if there is only one stage.
    """

    service: Service
    target: Desired
    spec: ServiceSpec
    data: bytes = b""
    plan: Plan = field(default_factory=Plan)
    stages: list[Stage] = field(default_factory=list)
    run: Run | None = None


Step = Callable[[Tools, Walk], Awaitable[None]]


async def synchronize(tools: Tools, service: Service) -> None:
    """Runs all steps. Raises the error that ended the sync early; failures of objects are on the
    service.
    """
    assert service.desired.spec is not None
    if is_as_wanted(service):
        note_as_wanted(tools, service)
        return
    walk = Walk(service, service.desired, service.desired.spec)
    service.failures.clear()
    service.awaiting, service.planned, service.gate = (), None, None
    if service.counted != walk.target.sequence:
        service.counted, service.written, service.pruned = walk.target.sequence, 0, 0
        service.adopted.clear()
    _heed_stop(tools, walk)
    for step in STEPS:
        await step(tools, walk)


async def obtain(tools: Tools, walk: Walk) -> None:
    """Loads the bundle from disk or from the control plane."""
    walk.service.busy = Phase.FETCHING
    tools.touch(walk.service.id)
    walk.data = await _load_or_fetch(tools, walk.spec)
    if _is_newest(walk) and not walk.service.stamps.fetched:
        walk.service.stamps = replace(walk.service.stamps, fetched=tools.now_ms())


async def plan(tools: Tools, walk: Walk) -> None:
    """Plans the manifests; objects of other services are not written.
    A bundle with any error is refused as a whole.
    """
    await tools.require_cluster()
    walk.service.busy = Phase.APPLYING
    walk.plan = await plan_bundle(tools.cluster, walk.target, walk.data)
    walk.data = b""
    for problem in walk.plan.problems:
        walk.service.failures[problem.ref.key if problem.ref else None] = problem
    if walk.plan.problems:
        walk.service.tried = walk.target.sequence
        raise Ended
    barred = set()
    for key, manifest in walk.plan.manifests.items():
        if text := tools.registry.rival(walk.service, manifest.ref):
            walk.service.failures[key] = Problem(text, "Claimed", manifest.ref)
            barred.add(key)
    _bar(tools, walk.service, frozenset(() if walk.spec.options.dry_run else barred))


async def announce(tools: Tools, walk: Walk) -> None:
    """Stores the objects that may be created, before any write."""
    if walk.spec.options.dry_run:
        return
    service = walk.service
    _arrange(tools, walk)
    coming = [
        manifest.ref
        for key, manifest in walk.plan.manifests.items()
        if key not in service.owned and _ours(walk, key)
    ]
    if service.current != walk.target or coming:
        tools.memory.begin(walk.target, coming)
    for ref in coming:
        tools.registry.add(service, Owned.intended(service.id, ref))
    service.current, service.spans = walk.target, walk.plan.spans


async def prepare_namespace(tools: Tools, walk: Walk) -> None:
    """Creates the service's namespace or sets the requested labels. The namespace is never
    pruned.
    """
    options = walk.spec.options
    if not options.create_namespace or not walk.spec.namespace:
        return
    ref = ObjectRef("", "v1", "Namespace", "", walk.spec.namespace)
    if ref.key in walk.plan.manifests:
        return
    body = _namespace(walk.spec)
    made = (walk.spec.namespace, fingerprint(body))
    if made in tools.registry.namespaces:
        return
    live = await tools.cluster.get(ref)
    if live is None or not _has(live, body["metadata"]):
        await tools.cluster.apply(ref, body, force=options.force, dry_run=options.dry_run)
    if not options.dry_run:
        tools.registry.namespaces.add(made)


async def rehearse(tools: Tools, walk: Walk) -> None:
    """Ends a dry run with the list of planned changes."""
    if not walk.spec.options.dry_run:
        return
    service, manifests = walk.service, walk.plan.manifests
    mine = [manifest for key, manifest in manifests.items() if _ours(walk, key)]
    changes = await plan_changes(tools, service, walk.plan, walk.spec, mine)
    going = [] if walk.spec.options.keep_on_prune else prunable(service, manifests)
    changes += [PlannedChange(owned.ref, Change.DELETE) for owned in going]
    service.planned = tuple(changes)
    service.tried = walk.target.sequence
    raise Ended


async def carry_out(tools: Tools, walk: Walk) -> None:
    """Applies changed objects and runs hooks, stage by stage; waits for health between stages."""
    for place, stage in enumerate(walk.stages, 1):
        if walk.service.stopped == walk.target.sequence:
            raise Ended
        await _write(tools, walk, stage)
        if walk.run is None:
            continue
        service = walk.service
        running = await run_hooks(tools, service, walk.run, stage.moment, stage.hooks)
        last = place == len(walk.stages)
        awaited = [] if last else [manifest.key for manifest in stage.manifests]
        if await await_stage(tools, service, walk.run, stage.name, awaited, running):
            await _break_off(tools, walk)


async def prune(tools: Tools, walk: Walk) -> None:
    """Deletes objects that the bundle no longer contains, unless they need confirmation."""
    service, options = walk.service, walk.spec.options
    going = prunable(service, walk.plan.manifests)
    # A confirmation to recreate an object does not cover the prunable objects.
    hooks = (hook.ref.key for hook in walk.plan.hooks)
    confirmed = walk.target.agreed.difference(walk.plan.manifests, hooks)
    terms = Terms(options.keep_on_prune, True, confirmed, options.deletion_budget)
    service.awaiting += await take_away(tools, service, going, terms)


async def finish(tools: Tools, walk: Walk) -> None:
    """Ends the sync; records the time if everything was applied."""
    service = walk.service
    service.tried = walk.target.sequence
    if service.failures and walk.run is not None:
        await _break_off(tools, walk)
    if walk.run is not None:
        keep = [hook.ref.key for hook in walk.plan.hooks]
        await clean_up(tools, service, walk.run, keep)
    if _is_newest(walk) and not _is_open(service) and not service.stamps.applied:
        service.stamps = replace(service.stamps, applied=tools.now_ms())
        tools.memory.stamp(service.id, service.stamps)


STEPS: tuple[Step, ...] = (
    obtain,
    plan,
    announce,
    prepare_namespace,
    rehearse,
    carry_out,
    prune,
    finish,
)


def _bar(tools: Tools, service: Service, barred: frozenset[ObjectKey]) -> None:
    """Records objects of conflicting owners, and triggers owners of objects that are no longer
    wanted.
    """
    for key in service.barred - barred:
        holder = tools.registry.claimant(key)
        if holder is not None and holder is not service:
            tools.urge(holder)
    service.barred = barred


def _heed_stop(tools: Tools, walk: Walk) -> None:
    """Keeps a sync terminated after a restart, unless a person has requested it again."""
    service, runs = walk.service, tools.memory.runs
    run = runs.get(service.id)
    if run is None or not run.stopped or run.sequence != walk.target.sequence:
        return
    if not service.asked_again:
        note_stopped(service)
        raise Ended
    run.again(run.sequence)
    runs.keep(run)


def _arrange(tools: Tools, walk: Walk) -> None:
    """Plans the stages, and loads the persistent state of the run."""
    service, spec = walk.service, walk.spec
    hooks = walk.plan.hooks
    manifests = [manifest for key, manifest in walk.plan.manifests.items() if _ours(walk, key)]
    if not hooks and len({manifest.wave[0] for manifest in manifests}) <= 1:
        walk.stages = [Stage("", Moment.SYNC, manifests)]
        service.asked_again = False
        return
    stored, first = tools.memory.runs.get(service.id), service.current is None
    run = run_for(stored, service.id, spec.digest, walk.target.sequence, first)
    if service.asked_again:
        run.again(walk.target.sequence)
    service.asked_again = False
    tools.memory.runs.keep(run)
    walk.run, walk.stages = run, stages_of(manifests, hooks, first=run.first)


async def _write(tools: Tools, walk: Walk, stage: Stage) -> None:
    service = walk.service
    stale = [
        manifest
        for manifest in stage.manifests
        if not _is_applied(walk, manifest.digest, manifest.key)
    ]
    if not stale:
        return
    await Writer(tools, service, walk.plan, walk.spec).write(stale)
    tools.memory.record(service.owned[manifest.key] for manifest in stale)


async def _break_off(tools: Tools, walk: Walk) -> None:
    """Ends a failed sync: runs its sync-fail hooks, and nothing after them."""
    assert walk.run is not None
    service, run = walk.service, walk.run
    service.tried = walk.target.sequence
    run.broken = True
    tools.memory.runs.keep(run)
    for stage in hooks_at(Moment.SYNC_FAIL, walk.plan.hooks, first=run.first):
        if await run_hooks(tools, service, run, stage.moment, stage.hooks):
            break
    raise Ended


def _is_open(service: Service) -> bool:
    """Reports whether work or confirmations are left."""
    return bool(service.failures or service.awaiting) or any(
        owned.leaving for owned in service.owned.values()
    )


async def _load_or_fetch(tools: Tools, spec: ServiceSpec) -> bytes:
    if tools.bundles.has(spec.digest):
        try:
            return await tools.bundles.load(spec.digest)
        except NotFound:
            pass
    data = await tools.fetcher.fetch(spec.digest, spec.size)
    await tools.bundles.save(spec.digest, data)
    return data


def _is_newest(walk: Walk) -> bool:
    """Reports whether the desired state is unchanged since the sync began; times belong to the
    newest.
    """
    return walk.service.desired is walk.target


def _ours(walk: Walk, key: ObjectKey) -> bool:
    failure = walk.service.failures.get(key)
    return failure is None or failure.reason != "Claimed"


def _is_applied(walk: Walk, digest: str, key: ObjectKey) -> bool:
    """Reports whether an object needs no apply; drift that must not be healed stays."""
    owned = walk.service.owned.get(key)
    if owned is None or owned.applied != digest or owned.doubtful or owned.leaving:
        return False
    return owned.synced or walk.spec.options.drift != DriftPolicy.HEAL


def _namespace(spec: ServiceSpec) -> KubeObject:
    metadata: KubeObject = {"name": spec.namespace}
    if spec.options.namespace_labels:
        metadata["labels"] = dict(spec.options.namespace_labels)
    if spec.options.namespace_annotations:
        metadata["annotations"] = dict(spec.options.namespace_annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _has(live: KubeObject, wanted: KubeObject) -> bool:
    """Reports whether a live namespace has the requested labels and annotations."""
    return all(
        (live["metadata"].get(part) or {}).get(name) == value
        for part in ("labels", "annotations")
        for name, value in (wanted.get(part) or {}).items()
    )
