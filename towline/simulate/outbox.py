"""In-memory implementation of `syncagent.ports.Outbox`."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from core.runtime.clock import Clock
from syncagent.ports import Merge, NumberedReport


@dataclass(frozen=True, slots=True)
class _QueuedReport:
    topic: str
    at_ms: int
    body: bytes


class MemoryOutbox:
    """Outbox without a disk; calls `emptied` when all reports are acknowledged."""

    def __init__(self, clock: Clock, emptied: Callable[[], None]) -> None:
        self._clock = clock
        self._emptied = emptied
        self._queued: dict[int, _QueuedReport] = {}
        self._newest: dict[str, int] = {}
        self._sent: deque[NumberedReport] = deque()
        self._position = 0
        self._number = 0
        self._acknowledged = 0
        self._filled = asyncio.Event()

    def put(self, topic: str, body: bytes, merge: Merge | None = None) -> None:
        """See `Outbox.put`."""
        waiting = self._queued.get(self._newest.get(topic, 0))
        merged = merge(waiting.body, body) if waiting and merge else body
        if waiting and merged is not None:
            del self._queued[self._newest[topic]]
        self._position += 1
        now_ms = int(self._clock.now().timestamp() * 1000)
        merged_body = body if merged is None else merged
        self._queued[self._position] = _QueuedReport(topic, now_ms, merged_body)
        self._newest[topic] = self._position
        self._filled.set()

    def put_event(self, topic: str, body: bytes) -> None:
        """See `Outbox.put_event`."""
        position = self._newest.get(topic, 0)
        waiting = self._queued.get(position)
        if waiting is None:
            self.put(topic, body)
        else:
            self._queued[position] = replace(waiting, body=body)

    def trim(self, group: str, max_entries: int) -> None:
        """See `Outbox.trim`."""
        inside = [p for p, entry in self._queued.items() if entry.topic.startswith(f"{group}/")]
        for position in inside[: max(0, len(inside) - max_entries)]:
            topic = self._queued.pop(position).topic
            if self._newest.get(topic) == position:
                del self._newest[topic]

    def acknowledge(self, number: int) -> None:
        """See `Outbox.acknowledge`."""
        self._number = max(self._number, number)
        self._acknowledged = max(self._acknowledged, number)
        while self._sent and self._sent[0].number <= number:
            self._sent.popleft()
        if not self.unacknowledged:
            self._emptied()

    def acknowledged(self) -> int:
        """See `Outbox.acknowledged`."""
        return self._acknowledged

    @property
    def unacknowledged(self) -> int:
        """Number of reports that the control plane has not acknowledged."""
        return len(self._queued) + len(self._sent)

    def sent(self) -> list[NumberedReport]:
        """See `Outbox.sent`."""
        return list(self._sent)

    def take(self, limit: int) -> list[NumberedReport]:
        """See `Outbox.take`."""
        entries = []
        for position in list(islice(self._queued, limit)):
            report = self._queued.pop(position)
            if self._newest.get(report.topic) == position:
                del self._newest[report.topic]
            self._number += 1
            entries.append(NumberedReport(self._number, report.at_ms, report.body))
        self._sent.extend(entries)
        if not self._queued:
            self._filled.clear()
        return entries

    async def wait(self) -> None:
        """See `Outbox.wait`."""
        await self._filled.wait()
