"""Runs each hook once in a run, despite restarts.
The end of a hook is stored on disk; its start is read from the annotation of its object. Only
objects with an annotation of the service are deleted; protected objects need a person's
confirmation.
"""

from collections.abc import Iterable

from fleet.errors import TowlineError
from syncagent.domain.deletion import is_precious
from syncagent.domain.directives import Leave, directives_of
from syncagent.domain.health import Health, Verdict
from syncagent.domain.hooks import Cleaning, Moment, ended
from syncagent.domain.objects import KubeObject, ObjectKey, ObjectRef, metadata_of, ref_of
from syncagent.domain.ownership import HookManifest, claim_of, run_of, with_run
from syncagent.domain.runs import Run, run_for
from syncagent.domain.services import Problem
from syncagent.ports import Refused
from syncagent.reconcile import sealed
from syncagent.reconcile.apply import problem_of, until_gone
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

_STOPPED = "terminated on request"
_VANISHED = "its object was deleted before its end was observed"


async def run_hooks(
    tools: Tools, service: Service, run: Run, moment: Moment, hooks: Iterable[HookManifest]
) -> list[ObjectKey]:
    """Starts and monitors hooks; returns the running ones. Failed hooks become failures of the
    service.
    """
    running = []
    for hook in hooks:
        name = f"{moment}/{hook.ref.kind}/{hook.ref.namespace}/{hook.ref.name}"
        try:
            if not await _has_ended(tools, service, run, name, hook):
                running.append(hook.ref.key)
        except TowlineError as error:
            service.failures[hook.ref.key] = problem_of(error, hook.ref)
    return running


async def clean_up(
    tools: Tools, service: Service, run: Run, keep: Iterable[ObjectKey] = ()
) -> None:
    """Deletes the objects of hooks of this and earlier runs, except for `keep`.
    Protected objects without confirmation are added to the deletions that await one.
    """
    kept = set(keep)
    for name, ref in list(run.made.items()):
        if ref.key in kept:
            continue
        live = await tools.cluster.get(ref)
        if live is not None and _is_ours(live, service):
            if not _may_go(service, ref, live):
                service.awaiting = (*service.awaiting, ref)
                continue
            await tools.cluster.delete(ref, live)
        tools.registry.end_hook(ref.key)
        del run.made[name]
    tools.memory.runs.keep(run)


async def halt(tools: Tools, service: Service) -> None:
    """Terminates a sync: deletes running hooks; a restart does not resume it."""
    assert service.desired.spec is not None
    stored, digest = tools.memory.runs.get(service.id), service.desired.spec.digest
    run = run_for(stored, service.id, digest, service.desired.sequence, service.current is None)
    for name in set(run.begun) - run.ended.keys():
        ref = run.made[name]
        live = await tools.cluster.get(ref)
        if live is not None and _is_ours(live, service) and _may_go(service, ref, live):
            await tools.cluster.delete(ref, live)
        tools.registry.end_hook(ref.key)
        run.ended[name] = _STOPPED
    run.stopped = True
    tools.memory.runs.keep(run)
    service.gate = None
    note_stopped(service)


def note_stopped(service: Service) -> None:
    """Records on a service that its sync was terminated."""
    service.stopped = service.desired.sequence
    service.failures[None] = Problem(
        "terminated on request; the next change or sync starts again", "Terminated"
    )


async def _has_ended(
    tools: Tools, service: Service, run: Run, name: str, hook: HookManifest
) -> bool:
    if name in run.ended:
        _fail(service, hook, run.ended[name])
        return True
    live = await _live(tools, service, hook)
    if claimed := _claimed(tools, service, hook, live):
        service.failures[hook.ref.key] = Problem(claimed, "Claimed", hook.ref)
        return True
    if live is not None and not _is_current(live, run):
        await _clear(tools, service, hook, live)
        live = None
    elif live is None and name in run.begun:
        _end(tools, service, run, name, hook, _VANISHED)
        return True
    if live is None:
        live = await _start(tools, service, run, name, hook)
    tools.registry.note_hook(service, hook.ref, metadata_of(live).get("uid") or "")
    tools.watch(hook.ref)
    verdict = ended(live)
    if verdict is None:
        return False
    why = "" if verdict.health == Health.HEALTHY else await _why(tools, service, live, verdict)
    _end(tools, service, run, name, hook, why)
    cleans = (Cleaning.FAILED if why else Cleaning.SUCCEEDED) in hook.hook.cleaning
    if cleans and _may_go(service, hook.ref, live):
        await tools.cluster.delete(hook.ref, live)
        run.made.pop(name, None)
        tools.memory.runs.keep(run)
    return True


async def _live(tools: Tools, service: Service, hook: HookManifest) -> KubeObject | None:
    """Returns the hook's object; a deleted one that had ended counts in its last state."""
    live = await tools.cluster.get(hook.ref)
    seen = service.hooks_seen.get(hook.ref.key)
    if live is None and seen is not None and ended(seen) is not None:
        return seen
    return live


def _claimed(tools: Tools, service: Service, hook: HookManifest, live: KubeObject | None) -> str:
    """Describes a conflicting owner of the hook's object, for people; empty if there is none."""
    rival = tools.registry.rival(service, hook.ref)
    if rival or live is None or _is_ours(live, service):
        return rival
    owner = claim_of(live)
    whose = f"belongs to service {owner}" if owner else "was not created by one of its hooks"
    return (
        f"{hook.ref} already exists and {whose}; service {service.name} does not delete it "
        "for its hook: give the hook another name, or remove that object"
    )


def _is_ours(live: KubeObject, service: Service) -> bool:
    """Reports whether a hook of this service created a live object."""
    return (run_of(live) or "").startswith(f"{service.id}.")


def _may_go(service: Service, ref: ObjectRef, live: KubeObject) -> bool:
    """Reports whether an object may be deleted: unprotected, confirmed, or permitted by its
    annotation.
    """
    if not is_precious(ref) or ref.key in service.desired.agreed:
        return True
    said = directives_of(live)
    return Leave.AGREED in {said.prune, said.delete}


def _is_current(live: KubeObject, run: Run) -> bool:
    """Reports whether an object belongs to this run, and not to a failed earlier attempt."""
    mark, _, attempt = (run_of(live) or "").rpartition("/")
    if mark != run.mark or metadata_of(live).get("deletionTimestamp"):
        return False
    verdict = ended(live)
    failed = verdict is not None and verdict.health == Health.FAILED
    return not failed or attempt == str(run.attempt)


async def _start(
    tools: Tools, service: Service, run: Run, name: str, hook: HookManifest
) -> KubeObject:
    run.made[name] = hook.ref
    tools.memory.runs.keep(run)
    body = with_run(hook, f"{run.mark}/{run.attempt}")
    spec = service.desired.spec
    live = await sealed.apply(tools, hook, body, force=spec is None or spec.options.force)
    run.begun.append(name)
    tools.memory.runs.keep(run)
    return live


async def _clear(tools: Tools, service: Service, hook: HookManifest, live: KubeObject) -> None:
    """Deletes the object of an earlier run and waits until it is gone."""
    if not metadata_of(live).get("deletionTimestamp"):
        if not _may_go(service, hook.ref, live):
            service.awaiting = (*service.awaiting, hook.ref)
            raise Refused(
                "cannot run again without deleting its object and content: confirm the deletion",
                status=409,
                reason="Unconfirmed",
            )
        await tools.cluster.delete(hook.ref, live)
    await until_gone(tools, hook.ref, metadata_of(live).get("uid") or "")


def _end(tools: Tools, service: Service, run: Run, name: str, hook: HookManifest, why: str) -> None:
    run.ended[name] = why
    tools.memory.runs.keep(run)
    service.hooks_seen.pop(hook.ref.key, None)
    tools.registry.end_hook(hook.ref.key)
    _fail(service, hook, why)


def _fail(service: Service, hook: HookManifest, why: str) -> None:
    if why:
        service.failures[hook.ref.key] = Problem(f"hook has failed: {why}", "HookFailed", hook.ref)


async def _why(tools: Tools, service: Service, live: KubeObject, verdict: Verdict) -> str:
    said = verdict.message or verdict.reason or "no reason given"
    uid = metadata_of(live).get("uid") or ""
    tail = await tools.evidence.last_words(service, ref_of(live), uid)
    return f"{said}; its log ends: {tail}" if tail else said
