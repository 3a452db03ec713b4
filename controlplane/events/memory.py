"""The bus of a single process."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from controlplane.ports import Wake


class _Queue:
    """Wakes in the order of their first publishing, each once; wakes a reader that waits."""

    def __init__(self) -> None:
        self._waiting: deque[Wake] = deque()
        self._known: set[Wake] = set()
        self._ready = asyncio.Event()

    def put(self, wake: Wake) -> None:
        if wake not in self._known:
            self._known.add(wake)
            self._waiting.append(wake)
            self._ready.set()

    async def __aiter__(self) -> AsyncGenerator[Wake, None]:
        while True:
            await self._ready.wait()
            while self._waiting:
                wake = self._waiting.popleft()
                self._known.discard(wake)
                yield wake
            self._ready.clear()


class MemoryBus:
    """The `Bus` port inside one process."""

    def __init__(self) -> None:
        self._queues: dict[str, set[_Queue]] = {}

    def publish(self, topic: str, key: str = "") -> None:
        for queue in self._queues.get(topic, ()):
            queue.put((topic, key))

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[AsyncIterator[Wake], None]:
        queue = _Queue()
        for topic in topics:
            self._queues.setdefault(topic, set()).add(queue)
        try:
            yield aiter(queue)
        finally:
            for topic in topics:
                self._queues[topic].discard(queue)
