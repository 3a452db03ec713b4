"""The bus of a single process."""

import asyncio
from collections import deque
from weakref import WeakSet

from controlplane.ports import Wake


class Wakes:
    """Wakes in the order of their first publishing, each once. Ends when nobody holds it."""

    def __init__(self) -> None:
        self._waiting: deque[Wake] = deque()
        self._known: set[Wake] = set()
        self._ready = asyncio.Event()

    def put(self, wake: Wake) -> None:
        """Add a wake, unless it waits already."""
        if wake not in self._known:
            self._known.add(wake)
            self._waiting.append(wake)
            self._ready.set()

    def __aiter__(self) -> "Wakes":
        return self

    async def __anext__(self) -> Wake:
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        wake = self._waiting.popleft()
        self._known.discard(wake)
        return wake


class MemoryBus:
    """The `Bus` port inside one process."""

    def __init__(self) -> None:
        self._topics: dict[str, WeakSet[Wakes]] = {}

    def publish(self, topic: str, key: str = "") -> None:
        for wakes in tuple(self._topics.get(topic, ())):
            wakes.put((topic, key))

    def subscribe(self, *topics: str) -> Wakes:
        wakes = Wakes()
        for topic in topics:
            self._topics.setdefault(topic, WeakSet()).add(wakes)
        return wakes
