"""Waiting between the stages of a sync without holding anything up.

A walk that has to wait ends; what it waits for is a `Gate`. Whatever is seen of the awaited objects
makes the engine look at the gate, and walk again once it is open.
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
    """The walk ends here; what there is to say of it is on the service."""


async def await_stage(
    tools: Tools,
    service: Service,
    run: Run,
    name: str,
    objects: Iterable[ObjectKey],
    hooks: Iterable[ObjectKey],
) -> bool:
    """Whether a stage has failed; ends the walk while it is neither well nor too late."""
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
    """Whether a sync still waits, at a time of the monotonic clock."""
    gate = service.gate
    if gate is None or not waits(service) or now >= gate.until:
        return False
    if gate.hooks and (now >= gate.look_at or any(_has_ended(service, key) for key in gate.hooks)):
        return False
    return bool(gate.hooks) or not all(
        key in service.owned and is_well(service.owned[key]) for key in gate.objects
    )


def waits(service: Service) -> bool:
    """Whether the sync of what is desired now has come to a stage that it waits for."""
    return service.gate is not None and service.gate.sequence == service.desired.sequence


def is_well(one: Owned) -> bool:
    """Whether what comes after an object may begin.

    A claim without a volume may wait for the very pod that comes after it.
    """
    if one.ref.kind == "PersistentVolumeClaim" and one.verdict.health == Health.PROGRESSING:
        return bool(one.uid)
    return one.verdict.health in _FINE


def saying(service: Service) -> str:
    """What a service waits for, for people."""
    gate = service.gate
    if gate is None:
        return ""
    owned = service.owned
    waiting = [key for key in gate.objects if key not in owned or not is_well(owned[key])]
    return f"{gate.name}: waiting for {_names([*waiting, *gate.hooks])}"


def _left_s(tools: Tools, service: Service, run: Run, name: str) -> float:
    """How long a stage may still take; the time counts across restarts."""
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
        f"{one.ref}: {one.verdict.message or one.verdict.health.name.lower()}"
        for one in service.owned.values()
        if one.key in waiting
    ][:3]
    text = f"{name} took too long, what comes after it was not begun; waited for "
    return Problem(text + (", ".join(reasons) or _names(sorted(running))), "Timeout")


def _has_ended(service: Service, key: ObjectKey) -> bool:
    seen = service.hooks_seen.get(key)
    return seen is not None and ended(seen) is not None


def _names(keys: list[ObjectKey]) -> str:
    shown = [f"{kind} {namespace}/{name}" for _, kind, namespace, name in keys[:3]]
    return ", ".join(shown) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
