"""The bus of a single process."""

import asyncio
from collections import deque
from weakref import WeakSet, finalize

from controlplane.ports import Wake


class WakeQueue:
    """Wake-ups in the order of their first publication, each once. Ends when nobody holds it."""

    def __init__(self) -> None:
        self._waiting: deque[Wake] = deque()
        self._known: set[Wake] = set()
        self._ready = asyncio.Event()

    def put(self, wake: Wake) -> None:
        """Adds a wake-up, unless it is already waiting."""
        if wake not in self._known:
            self._known.add(wake)
            self._waiting.append(wake)
            self._ready.set()

    def __aiter__(self) -> "WakeQueue":
        return self

    async def __anext__(self) -> Wake:
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        wake = self._waiting.popleft()
        self._known.discard(wake)
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
        for place in (topic, wake):
            for wakes in tuple(self._waiting.get(place, ())):
                wakes.put(wake)

    def subscribe(self, *topics: str | Wake) -> WakeQueue:
        wakes = WakeQueue()
        for place in topics:
            if not isinstance(place, str):
                # Created before the set's own reference, so it is called after it.
                finalize(wakes, self._forget, place).atexit = False
            self._waiting.setdefault(place, WeakSet()).add(wakes)
        return wakes

    def _forget(self, place: Wake) -> None:
        """Keys come from outside: nothing is kept for a key without subscribers."""
        if not self._waiting.get(place):
            self._waiting.pop(place, None)
