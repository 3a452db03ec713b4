"""Events on objects: one for each problem, with a count, written rarely."""

import asyncio
from dataclasses import dataclass, replace

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.objects import ObjectKey, ObjectRef
from syncagent.ports import KubeApi, ObjectEvent

log = structlog.get_logger(__name__)

_REPEAT_AFTER_S = 300.0
_PAUSE_S = 1.0
_AT_ONCE = 20
_MAX_EVENTS = 1000


@dataclass(slots=True)
class _RecordedEvent:
    """Number of occurrences of an event, and the time it was last written (monotonic seconds)."""

    event: ObjectEvent
    count: int = 0
    written: int = 0
    at: float = -_REPEAT_AFTER_S


class EventRecorder:
    """Collects events; limits the writes a second, and repeats an equal event only after
    minutes.
    """

    def __init__(self, cluster: KubeApi, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._events: dict[tuple[ObjectKey, str, str], _RecordedEvent] = {}
        self._waiting = asyncio.Event()

    def add(self, ref: ObjectRef, uid: str, reason: str, message: str, *, warns: bool) -> None:
        """Adds an event; the oldest are dropped if there are too many."""
        key = (ref.key, reason, message)
        recorded = self._events.pop(key, None) or _RecordedEvent(
            ObjectEvent(ref, uid, reason, message, warns, 0)
        )
        recorded.count += 1
        self._events[key] = recorded
        if len(self._events) > _MAX_EVENTS:
            del self._events[next(iter(self._events))]
        self._waiting.set()

    async def run(self) -> None:
        """Writes due events until cancelled."""
        while True:
            await self._waiting.wait()
            await self._clock.sleep(_PAUSE_S)
            due = [recorded for recorded in self._events.values() if self._is_due(recorded)]
            for recorded in due[:_AT_ONCE]:
                await self._write(recorded)
            if all(recorded.count == recorded.written for recorded in self._events.values()):
                self._waiting.clear()

    def _is_due(self, recorded: _RecordedEvent) -> bool:
        return recorded.count > recorded.written and (
            self._clock.monotonic() - recorded.at >= _REPEAT_AFTER_S
        )

    async def _write(self, recorded: _RecordedEvent) -> None:
        recorded.at, recorded.written = self._clock.monotonic(), recorded.count
        event = replace(recorded.event, count=recorded.count)
        try:
            await self._cluster.write_event(event)
        except TowlineError as error:
            log.debug("event not written", object=str(event.ref), reason=error.message)
