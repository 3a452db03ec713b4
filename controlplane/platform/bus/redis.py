"""The bus of several processes: Redis carries each publication to all of them."""

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncGenerator

import orjson
import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from controlplane.platform.bus.memory import MemoryBus, WakeQueue
from controlplane.platform.ports import LOST_WAKES, Wake
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

CHANNEL = "{towline:bus}"
SWEEP_SECONDS = 3.0
"""Interval of full checks for changes by other replicas while Redis is unreachable."""
_ANSWER_SECONDS = 2.0
_LISTEN_SECONDS = 1.0
MAX_QUEUED = 10_000
"""Maximum number of wake-ups that wait to be sent; others receive `LOST_WAKES` instead of more."""
_WAKES_A_MESSAGE = 500
_MESSAGE_BYTES = 1 << 20
LIBRARY_ERRORS = (RedisError, OSError, TimeoutError)


class RedisBus:
    """Implements `Bus` with Redis' publish and subscribe.

    Wake-ups of this process never wait for Redis. Whenever wake-ups of other replicas may be lost,
    the bus publishes `LOST_WAKES` here: after each gap, and every three seconds while it lasts.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._url, self._clock = url, clock
        self._process_id = secrets.token_hex(8)
        self._local = MemoryBus()
        self._redis = Redis.from_pool(connection_pool(url, _ANSWER_SECONDS))
        self._outgoing: deque[Wake] = deque()
        self._queued: set[Wake] = set()
        self._ready = asyncio.Event()
        self._is_unreachable: bool | None = None
        self.tasks = Tasks("bus")

    def start(self) -> None:
        """Starts sending and receiving; Redis may still be unreachable."""
        self.tasks.forever("hear", self._receive())
        self.tasks.forever("send", self._send())
        self.tasks.forever("sweep", self._sweep())

    async def stop(self) -> None:
        """Sends pending wake-ups, if Redis accepts them, and stops."""
        with contextlib.suppress(*LIBRARY_ERRORS):
            await self._send_queue()
        await self.tasks.stop()
        await self._redis.aclose()

    def publish(self, topic: str, key: str = "") -> None:
        self._local.publish(topic, key)
        wake = (topic, key)
        if wake in self._queued:
            return
        if len(self._outgoing) == MAX_QUEUED:
            self._drop_queue()
            wake = (LOST_WAKES, "")
        self._queued.add(wake)
        self._outgoing.append(wake)
        self._ready.set()

    def subscribe(self, *topics: str | Wake) -> WakeQueue:
        return self._local.subscribe(*topics)

    async def _send(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            try:
                await self._send_queue()
            except LIBRARY_ERRORS:
                # Others receive `LOST_WAKES` instead of all pending wake-ups.
                self._drop_queue()
                await self._clock.sleep(_LISTEN_SECONDS)
                self.publish(LOST_WAKES)

    async def _send_queue(self) -> None:
        while self._outgoing:
            batch = [self._outgoing[i] for i in range(min(_WAKES_A_MESSAGE, len(self._outgoing)))]
            for wake in batch:
                self._outgoing.popleft()
                self._queued.discard(wake)
            await self._redis.publish(CHANNEL, orjson.dumps([self._process_id, batch]))

    def _drop_queue(self) -> None:
        self._outgoing.clear()
        self._queued.clear()

    async def _receive(self) -> None:
        while True:
            with contextlib.suppress(*LIBRARY_ERRORS):
                async with self._subscribed() as subscription:
                    self._set_unreachable(unreachable=False)
                    await self._receive_messages(subscription)
            self._set_unreachable(unreachable=True)
            await self._clock.sleep(_LISTEN_SECONDS / 2)

    async def _receive_messages(self, subscription: PubSub) -> None:
        """Receives messages. Pings a silent server, so that a lost one is noticed."""
        is_pinged = False
        while True:
            message = await subscription.get_message(timeout=_LISTEN_SECONDS)
            if message is None:
                if is_pinged:
                    raise TimeoutError
                await subscription.ping()
                is_pinged = True
                continue
            is_pinged = False
            if message["type"] == "message":
                self._handle_message(message["data"])

    @contextlib.asynccontextmanager
    async def _subscribed(self) -> AsyncGenerator[PubSub, None]:
        client = Redis.from_pool(connection_pool(self._url, None))
        subscription = client.pubsub()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await subscription.subscribe(CHANNEL)
                await subscription.get_message(timeout=_ANSWER_SECONDS)
            yield subscription
        finally:
            await subscription.aclose()
            await client.aclose()

    def _handle_message(self, data: bytes) -> None:
        wakes = _parse_message(data, self._process_id)
        if wakes is None:
            log.error("ignored a message from Redis: unknown format", size=len(data))
            return
        for topic, key in wakes:
            self._local.publish(topic, key)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            if self._is_unreachable:
                self._local.publish(LOST_WAKES)

    def _set_unreachable(self, *, unreachable: bool) -> None:
        if unreachable == self._is_unreachable:
            return
        if unreachable:
            log.warning("Redis is unreachable: changes by other replicas are found by sweeps only")
        elif self._is_unreachable is not None:
            log.info("Redis is reachable again")
        self._is_unreachable = unreachable
        self._local.publish(LOST_WAKES)


def _parse_message(data: bytes, own_id: str) -> list[Wake] | None:
    """Returns the wake-ups of a message, except this process' own; None: invalid message."""
    if len(data) > _MESSAGE_BYTES:
        return None
    try:
        sender, wakes = orjson.loads(data)
        parsed = [(topic, key) for topic, key in wakes]
    except (ValueError, TypeError):
        return None
    if not all(isinstance(text, str) for wake in parsed for text in wake):
        return None
    return [] if sender == own_id else parsed


def connection_pool(url: str, seconds: float | None) -> BlockingConnectionPool:
    """Creates connections that fail after `seconds` (None: never) instead of retrying for long."""
    options: dict[str, object] = {"socket_timeout": seconds, "timeout": _ANSWER_SECONDS}
    return BlockingConnectionPool.from_url(
        url,
        max_connections=4,
        socket_connect_timeout=_ANSWER_SECONDS,
        # Otherwise the library retries on its own for a quarter of a minute.
        retry=Retry(NoBackoff(), 0),
        **options,
    )
