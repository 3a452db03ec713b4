"""Gates between the stages of a sync, which wait without blocking a task.
A sync that must wait ends, and its condition is stored as a `Gate`. Each observation of an awaited
object makes the engine check the gate, and resume the sync once it is open.
"""

from collections.abc import Iterable

from syncagent.domain.health import Health
from syncagent.domain.hooks import ended
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import ObjectKey
from syncagent.domain.runs import Run
from syncagent.domain.services import Problem
from syncagent.reconcile.registry import Gate, Service
from syncagent.reconcile.tools import Tools

WAVE_TIMEOUT_S = 300
_LOOK_EVERY_S = 5.0
_FINE = (Health.HEALTHY, Health.PAUSED)


class Ended(Exception):
    """The sync ends here; the service holds its status."""


async def await_stage(
    tools: Tools,
    service: Service,
    run: Run,
    name: str,
    objects: Iterable[ObjectKey],
    hooks: Iterable[ObjectKey],
) -> bool:
    """Reports whether a stage has failed; pauses the sync while the stage is neither healthy nor
    timed out.
    """
    waiting = frozenset(key for key in objects if not is_well(service.owned[key]))
    running = frozenset(hooks)
    if service.failures or not (waiting or running):
        return bool(service.failures)
    now = tools.clock.monotonic()
    left = _left_s(tools, service, run, name)
    if left <= 0:
        service.failures[None] = _too_late(service, name, waiting, running)
        return True
    service.gate = Gate(
        name, service.desired.sequence, waiting, running, now + left, now + _LOOK_EVERY_S
    )
    raise Ended


def is_closed(service: Service, now: float) -> bool:
    """Reports whether the gate of a sync is closed at a time of the monotonic clock."""
    gate = service.gate
    if gate is None or not waits(service) or now >= gate.until:
        return False
    if gate.hooks and (now >= gate.look_at or any(_has_ended(service, key) for key in gate.hooks)):
        return False
    return bool(gate.hooks) or not all(
        key in service.owned and is_well(service.owned[key]) for key in gate.objects
    )


def waits(service: Service) -> bool:
    """Reports whether the sync of the present desired state waits at a gate."""
    return service.gate is not None and service.gate.sequence == service.desired.sequence


def is_well(owned: Owned) -> bool:
    """Reports whether the next stage may begin after an object.
    A claim without a volume counts as ready, because it may wait for the pod of the next stage.
    """
    if owned.ref.kind == "PersistentVolumeClaim" and owned.verdict.health == Health.PROGRESSING:
        return bool(owned.uid)
    return owned.verdict.health in _FINE


def saying(service: Service) -> str:
    """Describes the present wait of a service for people."""
    gate = service.gate
    if gate is None:
        return ""
    owned = service.owned
    waiting = [key for key in gate.objects if key not in owned or not is_well(owned[key])]
    return f"{gate.name}: waiting for {_names([*waiting, *gate.hooks])}"


def _left_s(tools: Tools, service: Service, run: Run, name: str) -> float:
    """Returns the remaining seconds of a stage; the time continues across restarts."""
    now_ms = tools.now_ms()
    if run.gate != name:
        run.gate, run.since_ms = name, now_ms
        tools.memory.runs.keep(run)
    spec = service.desired.spec
    most = (spec.options.wave_timeout_s if spec else 0) or WAVE_TIMEOUT_S
    return most - (now_ms - run.since_ms) / 1000


def _too_late(
    service: Service, name: str, waiting: frozenset[ObjectKey], running: frozenset[ObjectKey]
) -> Problem:
    reasons = [
        f"{owned.ref}: {owned.verdict.message or owned.verdict.health.name.lower()}"
        for owned in service.owned.values()
        if owned.key in waiting
    ][:3]
    text = f"{name} timed out; later stages were not started; waited for "
    return Problem(text + (", ".join(reasons) or _names(sorted(running))), "Timeout")


def _has_ended(service: Service, key: ObjectKey) -> bool:
    seen = service.hooks_seen.get(key)
    return seen is not None and ended(seen) is not None


def _names(keys: list[ObjectKey]) -> str:
    shown = [f"{kind} {namespace}/{name}" for _, kind, namespace, name in keys[:3]]
    return ", ".join(shown) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
