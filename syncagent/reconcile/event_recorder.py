"""Events on objects: one for each problem, with a count, written rarely."""

import asyncio
from dataclasses import dataclass

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.objects import ObjectKey, ObjectRef
from syncagent.ports import KubeApi, Notice

log = structlog.get_logger(__name__)

_AGAIN_AFTER_S = 300.0
_PAUSE_S = 1.0
_AT_ONCE = 20
_MAX_KEPT = 1000


@dataclass(slots=True)
class _RecordedNotice:
    """Count of a notice, and the time it was last written (monotonic seconds)."""

    notice: Notice
    count: int = 0
    written: int = 0
    at: float = -_AGAIN_AFTER_S


class EventRecorder:
    """Collects notices; limits the writes a second, and repeats an equal notice only after
    minutes.
    """

    def __init__(self, cluster: KubeApi, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._kept: dict[tuple[ObjectKey, str, str], _RecordedNotice] = {}
        self._waiting = asyncio.Event()

    def add(self, ref: ObjectRef, uid: str, reason: str, message: str, *, warns: bool) -> None:
        """Adds a notice; the oldest are dropped if there are too many."""
        key = (ref.key, reason, message)
        kept = self._kept.pop(key, None) or _RecordedNotice(
            Notice(ref, uid, reason, message, warns, 0)
        )
        kept.count += 1
        self._kept[key] = kept
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._waiting.set()

    async def run(self) -> None:
        """Writes due notices until cancelled."""
        while True:
            await self._waiting.wait()
            await self._clock.sleep(_PAUSE_S)
            due = [kept for kept in self._kept.values() if self._is_due(kept)]
            for kept in due[:_AT_ONCE]:
                await self._write(kept)
            if all(kept.count == kept.written for kept in self._kept.values()):
                self._waiting.clear()

    def _is_due(self, kept: _RecordedNotice) -> bool:
        return kept.count > kept.written and (self._clock.monotonic() - kept.at >= _AGAIN_AFTER_S)

    async def _write(self, kept: _RecordedNotice) -> None:
        kept.at, kept.written, one = self._clock.monotonic(), kept.count, kept.notice
        notice = Notice(one.ref, one.uid, one.reason, one.message, one.warns, kept.count)
        try:
            await self._cluster.tell(notice)
        except TowlineError as error:
            log.debug("event not written", object=str(one.ref), reason=error.message)
