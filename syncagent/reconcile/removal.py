"""Removal of a service, with its objects or without."""

from fleet.errors import NotFound
from syncagent.domain.hooks import Moment
from syncagent.domain.runs import Run, run_for
from syncagent.domain.services import Phase, Removal, Status
from syncagent.reconcile.gates import Ended, await_stage
from syncagent.reconcile.hooking import clean_up, run_hooks
from syncagent.reconcile.manifests import Plan, plan_bundle
from syncagent.reconcile.prune import Terms, take_away
from syncagent.reconcile.registry import Service
from syncagent.reconcile.stages import hooks_at
from syncagent.reconcile.tools import Tools


async def remove(tools: Tools, service: Service) -> None:
    """Deletes the objects of a service; after the last one is gone, deletes and reports the
    service.
    """
    await tools.require_cluster()
    service.busy = Phase.APPLYING
    service.failures.clear()
    service.gate, service.awaiting = None, ()
    orphan = service.desired.removal == Removal.ORPHAN
    plan = Plan() if orphan else await _last_plan(tools, service)
    run = _run(tools, service)
    await _hooks(tools, service, run, plan, Moment.PRE_DELETE)
    terms = Terms(keep=orphan, prunes=False, confirmed=service.desired.agreed)
    service.awaiting = await take_away(tools, service, list(service.owned.values()), terms)
    if service.owned:
        return
    await _hooks(tools, service, run, plan, Moment.POST_DELETE)
    await clean_up(tools, service, run)
    if service.awaiting:
        return
    tools.reports.status(removed(service))
    tools.memory.forget(service.id)
    tools.registry.remove(service)


def removed(service: Service) -> Status:
    """Builds the final status of a removed service."""
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


def _run(tools: Tools, service: Service) -> Run:
    stored = tools.memory.runs.get(service.id)
    return run_for(stored, service.id, "", service.desired.sequence, first=False)


async def _last_plan(tools: Tools, service: Service) -> Plan:
    """Returns the plan applied last, for its hooks; empty if it is no longer on disk."""
    if service.current is None or service.current.spec is None:
        return Plan()
    try:
        data = await tools.bundles.load(service.current.spec.digest)
    except NotFound:
        return Plan()
    return await plan_bundle(tools.cluster, service.current, data)


async def _hooks(tools: Tools, service: Service, run: Run, plan: Plan, moment: Moment) -> None:
    """Runs the hooks of one moment; pauses the removal while they run or after a failure."""
    for stage in hooks_at(moment, plan.hooks, first=False):
        running = await run_hooks(tools, service, run, moment, stage.hooks)
        if await await_stage(tools, service, run, stage.name, (), running):
            raise Ended
