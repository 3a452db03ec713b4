"""Runs each hook once in a phase of a run, despite restarts.
The end of a hook is stored on disk; its start is read from the annotation of its object. As with
Helm, delete policies take effect once all hooks of the phase have ended, because a Job may need
the ServiceAccount of another hook. Only objects with an annotation of the service are deleted;
protected objects need a person's confirmation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.errors import TowlineError
from core.spec.health import HealthState
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.status import Problem
from syncagent.domain.deletion import is_protected
from syncagent.domain.directives import DeletionPolicy, directives_of
from syncagent.domain.hooks import HookDeletePolicy, HookPhase, hook_result
from syncagent.domain.objects import KubeObject, metadata_of, ref_of
from syncagent.domain.observed.object_status import HealthStatus
from syncagent.domain.ownership import HookManifest, claiming_service, run_of, with_run
from syncagent.domain.sync_run import SyncRun, run_for
from syncagent.ports import RequestRefused
from syncagent.reconcile import sealed
from syncagent.reconcile.applier import problem_of, until_gone
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.gates import HOOK_FAILED
from syncagent.reconcile.registry import ServiceState
from syncagent.reconcile.stages import SyncStage

_STOPPED = "terminated on request"
_VANISHED = "its object was deleted before its end was observed"


@dataclass(frozen=True, slots=True)
class PhaseHook:
    """A hook at one of its phases."""

    phase: HookPhase
    manifest: HookManifest

    @property
    def ref(self) -> ObjectRef:
        return self.manifest.ref

    @property
    def name(self) -> str:
        """Returns its name in a run."""
        return f"{self.phase}/{self.ref.kind}/{self.ref.namespace}/{self.ref.name}"


async def run_hooks(
    context: ReconcileContext, service: ServiceState, run: SyncRun, stage: SyncStage
) -> list[ObjectKey]:
    """Starts and monitors the hooks of a stage; returns the running ones. Failed hooks become
    failures of the service.
    """
    running = []
    for hook in stage.hooks:
        try:
            if not await _has_ended(context, service, run, PhaseHook(stage.phase, hook)):
                running.append(hook.ref.key)
        except TowlineError as error:
            service.failures[hook.ref.key] = problem_of(error, hook.ref)
    hooks = [PhaseHook(stage.phase, hook) for hook in stage.phase_hooks]
    if not running and _is_over(run, hooks):
        await _delete_by_policy(context, service, run, hooks)
    return running


async def clean_up(
    context: ReconcileContext, service: ServiceState, run: SyncRun, keep: Iterable[ObjectKey] = ()
) -> None:
    """Deletes the objects of hooks of this and earlier runs, except for `keep`.
    Protected objects without confirmation are added to the deletions that await one.
    """
    kept = set(keep)
    for name, ref in list(run.made.items()):
        if ref.key in kept:
            continue
        live = await context.cluster.get(ref)
        if live is not None and _is_ours(live, service):
            if not _may_be_deleted(service, ref, live):
                service.awaiting = (*service.awaiting, ref)
                continue
            await context.cluster.delete(ref, live)
        context.registry.end_hook(ref.key)
        del run.made[name]
    context.memory.runs.keep(run)


async def terminate_sync(context: ReconcileContext, service: ServiceState) -> None:
    """Terminates a sync: deletes running hooks; a restart does not resume it."""
    assert service.desired.spec is not None
    stored, digest = context.memory.runs.get(service.id), service.desired.spec.digest
    run = run_for(stored, service.id, digest, service.desired.sequence, service.current is None)
    for name in set(run.begun) - run.ended.keys():
        ref = run.made[name]
        live = await context.cluster.get(ref)
        if live is not None and _is_ours(live, service) and _may_be_deleted(service, ref, live):
            await context.cluster.delete(ref, live)
        context.registry.end_hook(ref.key)
        run.ended[name] = _STOPPED
    run.stopped = True
    context.memory.runs.keep(run)
    service.gate = None
    record_terminated(service)


def record_terminated(service: ServiceState) -> None:
    """Records on a service that its sync was terminated."""
    service.stopped = service.desired.sequence
    service.failures[None] = Problem(
        "terminated on request; the next change or sync starts again", reason="Terminated"
    )


async def _has_ended(
    context: ReconcileContext, service: ServiceState, run: SyncRun, hook: PhaseHook
) -> bool:
    if hook.name in run.ended:
        _record_failure(service, hook, run.ended[hook.name])
        return True
    live = await _observed_object(context, service, hook)
    if conflict := _describe_conflict(context, service, hook, live):
        service.failures[hook.ref.key] = Problem(conflict, reason="Claimed", ref=hook.ref)
        return True
    if live is not None and not _is_current(live, service, run, hook):
        await _delete_earlier_object(context, service, hook, live)
        live = None
    elif live is None and hook.name in run.begun:
        _record_end(context, service, run, hook, _VANISHED)
        return True
    if live is None:
        live = await _create_object(context, service, run, hook)
    running = context.registry.add_hook(service, hook.ref, metadata_of(live).get("uid") or "")
    context.watch(hook.ref)
    verdict = hook_result(live, service.rules)
    if verdict is None:
        context.diagnostics.schedule_hook_check(service, running)
        return False
    failure = (
        ""
        if verdict.health == HealthState.HEALTHY
        else await _describe_failure(context, service, live, verdict)
    )
    _record_end(context, service, run, hook, failure)
    return True


def _is_over(run: SyncRun, hooks: Sequence[PhaseHook]) -> bool:
    """Reports whether a phase is over: all of its hooks have ended, or one has failed."""
    ended = [run.ended.get(hook.name) for hook in hooks]
    return any(ended) or None not in ended


async def _delete_by_policy(
    context: ReconcileContext, service: ServiceState, run: SyncRun, hooks: Sequence[PhaseHook]
) -> None:
    """Deletes the objects of ended hooks by their policies, the last one first."""
    for hook in reversed(hooks):
        failure = run.ended.get(hook.name)
        policy = HookDeletePolicy.FAILED if failure else HookDeletePolicy.SUCCEEDED
        if (
            failure is None
            or hook.name not in run.made
            or policy not in hook.manifest.hook.delete_policies
        ):
            continue
        live = await context.cluster.get(hook.ref)
        if live is not None and _belongs_to_run(live, run, hook):
            if not _may_be_deleted(service, hook.ref, live):
                continue
            await context.cluster.delete(hook.ref, live)
        del run.made[hook.name]
        context.memory.runs.keep(run)


async def _observed_object(
    context: ReconcileContext, service: ServiceState, hook: PhaseHook
) -> KubeObject | None:
    """Returns the hook's object; a deleted one that had ended counts in its last state."""
    live = await context.cluster.get(hook.ref)
    last_seen = service.observed_hooks.get(hook.ref.key)
    if live is None and last_seen is not None and hook_result(last_seen, service.rules) is not None:
        return last_seen
    return live


def _describe_conflict(
    context: ReconcileContext, service: ServiceState, hook: PhaseHook, live: KubeObject | None
) -> str:
    """Describes a conflicting owner of the hook's object, for people; empty if there is none."""
    conflicting_owner = context.registry.conflicting_owner(service, hook.ref)
    if conflicting_owner or live is None or _is_ours(live, service):
        return conflicting_owner
    owner = claiming_service(live)
    claim_text = f"belongs to service {owner}" if owner else "was not created by one of its hooks"
    return (
        f"{hook.ref} already exists and {claim_text}; service {service.name} does not delete it "
        "for its hook: give the hook another name, or remove that object"
    )


def _is_ours(live: KubeObject, service: ServiceState) -> bool:
    """Reports whether a hook of this service created a live object."""
    return (run_of(live) or "").startswith(f"{service.id}.")


def _may_be_deleted(service: ServiceState, ref: ObjectRef, live: KubeObject) -> bool:
    """Reports whether an object may be deleted: unprotected, confirmed, or permitted by its
    annotation.
    """
    if not is_protected(ref) or ref.key in service.desired.agreed:
        return True
    directives = directives_of(live)
    return DeletionPolicy.AGREED in {directives.prune, directives.delete}


def _belongs_to_run(live: KubeObject, run: SyncRun, hook: PhaseHook) -> bool:
    """Reports whether an object belongs to this phase of this run."""
    return (run_of(live) or "").rpartition("/")[0] == run.mark(hook.phase)


def _is_current(live: KubeObject, service: ServiceState, run: SyncRun, hook: PhaseHook) -> bool:
    """Reports whether an object belongs to this phase, and not to a failed earlier attempt."""
    if not _belongs_to_run(live, run, hook) or metadata_of(live).get("deletionTimestamp"):
        return False
    verdict = hook_result(live, service.rules)
    failed = verdict is not None and verdict.health == HealthState.FAILED
    return not failed or (run_of(live) or "").rpartition("/")[2] == str(run.attempt)


async def _create_object(
    context: ReconcileContext, service: ServiceState, run: SyncRun, hook: PhaseHook
) -> KubeObject:
    run.made[hook.name] = hook.ref
    context.memory.runs.keep(run)
    body = with_run(hook.manifest, f"{run.mark(hook.phase)}/{run.attempt}")
    spec = service.desired.spec
    live = await sealed.apply(
        context, hook.manifest, body, force=spec is None or not spec.options.fail_on_conflict
    )
    run.begun.append(hook.name)
    context.memory.runs.keep(run)
    return live


async def _delete_earlier_object(
    context: ReconcileContext, service: ServiceState, hook: PhaseHook, live: KubeObject
) -> None:
    """Deletes the object of an earlier run and waits until it is gone."""
    if not metadata_of(live).get("deletionTimestamp"):
        if not _may_be_deleted(service, hook.ref, live):
            service.awaiting = (*service.awaiting, hook.ref)
            raise RequestRefused(
                "cannot run again without deleting its object and content: confirm the deletion",
                status=409,
                reason="Unconfirmed",
            )
        await context.cluster.delete(hook.ref, live)
    await until_gone(context, hook.ref, metadata_of(live).get("uid") or "")


def _record_end(
    context: ReconcileContext, service: ServiceState, run: SyncRun, hook: PhaseHook, failure: str
) -> None:
    run.ended[hook.name] = failure
    context.memory.runs.keep(run)
    service.observed_hooks.pop(hook.ref.key, None)
    context.registry.end_hook(hook.ref.key)
    _record_failure(service, hook, failure)


def _record_failure(service: ServiceState, hook: PhaseHook, failure: str) -> None:
    if failure:
        service.failures[hook.ref.key] = Problem(
            f"hook has failed: {failure}", reason=HOOK_FAILED, ref=hook.ref
        )


async def _describe_failure(
    context: ReconcileContext, service: ServiceState, live: KubeObject, verdict: HealthStatus
) -> str:
    text = verdict.message or verdict.reason or "no reason given"
    uid = metadata_of(live).get("uid") or ""
    tail = await context.diagnostics.failure_log(service, ref_of(live), uid)
    return f"{text}; its log ends: {tail}" if tail else text
