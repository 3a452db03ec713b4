"""The bus of a single process."""

import asyncio
from collections import deque
from weakref import WeakSet, finalize

from controlplane.platform.ports import Wake


class WakeQueue:
    """Wake-ups in the order of their first publication, each once. Ends when nobody holds it."""

    def __init__(self) -> None:
        self._waiting: deque[Wake] = deque()
        self._queued: set[Wake] = set()
        self._ready = asyncio.Event()

    def put(self, wake: Wake) -> None:
        """Adds a wake-up, unless it is already waiting."""
        if wake not in self._queued:
            self._queued.add(wake)
            self._waiting.append(wake)
            self._ready.set()

    def __aiter__(self) -> "WakeQueue":
        return self

    async def __anext__(self) -> Wake:
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        wake = self._waiting.popleft()
        self._queued.discard(wake)
        return wake


class MemoryBus:
    """Implements `Bus` inside one process.

    A subscriber of one key is not woken by other keys: thousands may subscribe, each to its own
    key.
    """

    def __init__(self) -> None:
        self._waiting: dict[str | Wake, WeakSet[WakeQueue]] = {}

    def publish(self, topic: str, key: str = "") -> None:
        wake = (topic, key)
        for subscription in (topic, wake):
            for queue in tuple(self._waiting.get(subscription, ())):
                queue.put(wake)

    def subscribe(self, *topics: str | Wake) -> WakeQueue:
        queue = WakeQueue()
        for subscription in topics:
            if not isinstance(subscription, str):
                # Created before the set's own reference, so it is called after it.
                finalize(queue, self._drop_unused_key, subscription).atexit = False
            self._waiting.setdefault(subscription, WeakSet()).add(queue)
        return queue

    def _drop_unused_key(self, subscription: Wake) -> None:
        """Keys come from outside: nothing is kept for a key without subscribers."""
        if not self._waiting.get(subscription):
            self._waiting.pop(subscription, None)
