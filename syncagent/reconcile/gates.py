"""Gates between the stages of a sync, which wait without blocking a task.
A sync that must wait ends, and its condition is stored as a `SyncGate`. Each observation of an
awaited object makes the engine check the gate, and resume the sync once it is open.
"""

from collections.abc import Iterable, Mapping

from core.spec.health import HealthState
from core.spec.objects import ObjectKey
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Problem
from syncagent.domain.hooks import hook_result
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.sync_run import SyncRun
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.registry import ServiceRegistry, ServiceState, SyncGate

WAVE_TIMEOUT_S = 300
HOOK_FAILED = "HookFailed"
"""Reason of a failed hook."""
_CHECK_HOOKS_EVERY_S = 5.0
_READY_STATES = (HealthState.HEALTHY, HealthState.PAUSED)


class SyncPaused(Exception):
    """The sync ends here; the service holds its status."""


async def await_stage(
    context: ReconcileContext,
    service: ServiceState,
    run: SyncRun,
    name: str,
    objects: Iterable[ObjectKey],
    hooks: Iterable[ObjectKey],
) -> bool:
    """Reports whether a stage has failed; pauses the sync while the stage is neither healthy nor
    timed out. A stage with a failed hook fails after its running hooks have ended, because their
    delete policies take effect then.
    """
    waiting = frozenset(key for key in objects if not is_ready(service.owned[key]))
    running = frozenset(hooks)
    if service.failures:
        waiting = frozenset()
        if any(problem.reason != HOOK_FAILED for problem in service.failures.values()):
            return True
    if not (waiting or running):
        return bool(service.failures)
    now = context.clock.monotonic()
    remaining = _remaining_s(context, service, run, name)
    if remaining <= 0:
        service.failures[None] = _timeout_problem(context, service, name, waiting, running)
        return True
    service.gate = SyncGate(
        name,
        service.desired.sequence,
        waiting,
        running,
        now + remaining,
        now + _CHECK_HOOKS_EVERY_S,
    )
    raise SyncPaused


def is_closed(service: ServiceState, now: float) -> bool:
    """Reports whether the gate of a sync is closed at a time of the monotonic clock."""
    gate = service.gate
    if gate is None or not is_waiting(service) or now >= gate.until:
        return False
    if gate.hooks and (
        now >= gate.check_hooks_at or any(_has_ended(service, key) for key in gate.hooks)
    ):
        return False
    return bool(gate.hooks) or not all(
        key in service.owned and is_ready(service.owned[key]) for key in gate.objects
    )


def is_waiting(service: ServiceState) -> bool:
    """Reports whether the sync of the present desired state waits at a gate."""
    return service.gate is not None and service.gate.sequence == service.desired.sequence


def is_ready(owned: OwnedObject) -> bool:
    """Reports whether the next stage may begin after an object.
    A claim without a volume counts as ready, because it may wait for the pod of the next stage.
    """
    if (
        owned.ref.kind == "PersistentVolumeClaim"
        and owned.verdict.health == HealthState.PROGRESSING
    ):
        return bool(owned.uid)
    return owned.verdict.health in _READY_STATES


def describe_wait(
    service: ServiceState,
    components: Mapping[ObjectKey, ObservedComponent],
    registry: ServiceRegistry,
) -> str:
    """Describes the present wait of a service for people. An object with a reason stands first."""
    gate, owned = service.gate, service.owned
    if gate is None:
        return ""
    waiting = [key for key in gate.objects if key not in owned or not is_ready(owned[key])]
    reasons = {key: _component_message(components, key) for key in sorted(waiting)}
    reasons |= {key: registry.hook_diagnosis(key) for key in sorted(gate.hooks)}
    keys = sorted(reasons, key=lambda key: not reasons[key])
    reason = f": {reasons[keys[0]]}" if keys and reasons[keys[0]] else ""
    return f"{gate.name}: waiting for {_describe_objects(keys)}{reason}"


def _component_message(components: Mapping[ObjectKey, ObservedComponent], key: ObjectKey) -> str:
    component = components.get(key)
    return component.message if component else ""


def _remaining_s(
    context: ReconcileContext, service: ServiceState, run: SyncRun, name: str
) -> float:
    """Returns the remaining seconds of a stage; the time continues across restarts."""
    now_ms = context.now_ms()
    if run.gate != name:
        run.gate, run.since_ms = name, now_ms
        context.memory.runs.keep(run)
    spec = service.desired.spec
    timeout_s = (spec.options.wave_timeout_s if spec else 0) or WAVE_TIMEOUT_S
    return timeout_s - (now_ms - run.since_ms) / 1000


def _timeout_problem(
    context: ReconcileContext,
    service: ServiceState,
    name: str,
    waiting: frozenset[ObjectKey],
    running: frozenset[ObjectKey],
) -> Problem:
    reasons = [
        f"{owned.ref}: {owned.verdict.message or owned.verdict.health.name.lower()}"
        for owned in service.owned.values()
        if owned.key in waiting
    ][:3]
    text = ", ".join(reasons) or _describe_objects(sorted(running))
    events = filter(None, map(context.registry.hook_diagnosis, sorted(running)))
    text = "; ".join([text, *events][:3])
    return Problem(
        f"{name} timed out; later stages were not started; waited for {text}", reason="Timeout"
    )


def _has_ended(service: ServiceState, key: ObjectKey) -> bool:
    live = service.observed_hooks.get(key)
    return live is not None and hook_result(live, service.rules) is not None


def _describe_objects(keys: list[ObjectKey]) -> str:
    shown = [f"{kind} {namespace}/{name}" for _, kind, namespace, name in keys[:3]]
    return ", ".join(shown) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
