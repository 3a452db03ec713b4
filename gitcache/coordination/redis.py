"""Coordination of several replicas through Redis: heartbeats, leases, fenced states, events.

One task sends heartbeats, one listens. Reads use memory; only claims, publishing and hints
query Redis. Data from Redis is trusted only with a valid HMAC of the shared key. While Redis
is unavailable, a lease stays valid until it expires by this replica's monotonic clock, which
also runs while the process is paused.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.errors import Invalid, Unavailable
from core.identity import RepositoryId, new_id
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.source import RepositoryState
from gitcache.coordination import scripts
from gitcache.domain import messages
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.ports import (
    HintForwarded,
    PlacementChanged,
    ReplicaEvent,
    ReplicaMember,
    StatePublished,
)

log = structlog.get_logger(__name__)

_PREFIX = "{towline:git}"
_KEYS = ("members", "about", "owners", "prepared", "states", "changes", "news")
_MEMBER = re.compile(r"(\S+) (\S+) (\d{1,15}) (\S+)")
_NEWS = re.compile(rb"(\w+) (\d{1,15}) (\S+) (.*)", re.DOTALL)
_CONNECTIONS = 8
_ANSWER_SECONDS = 2.0
_LISTEN_SECONDS = 1.0
_LEAVING_SECONDS = 4.0
"""Maximum time that Redis may delay the shutdown of a replica."""

_LIBRARY_ERRORS = (RedisError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Seconds between heartbeats, and lease duration after the last heartbeat."""

    heartbeat: float = 1.0
    lease: float = 4.0


@dataclass(frozen=True, slots=True)
class _Peer:
    member: ReplicaMember
    incarnation: str
    settled: bool


class RedisReplicas:
    """Implements `Replicas` for one of several replicas."""

    def __init__(
        self,
        url: str,
        me: ReplicaMember,
        seal: MessageAuthenticator,
        clock: Clock,
        terms: LeaseTerms | None = None,
    ) -> None:
        self.me = me
        self._url = url
        self._seal = seal
        self._clock = clock
        self._terms = terms or LeaseTerms()
        self._ttl = int(self._terms.lease * 1000)
        self._redis = Redis.from_pool(_pool(url, _ANSWER_SECONDS))
        self._keys = [f"{_PREFIX}:{name}" for name in _KEYS]
        self._listen: Callable[[ReplicaEvent], None] = lambda news: None
        self._incarnation = ""
        self._good_until = 0.0
        self._live: dict[str, _Peer] = {}
        self._owners: dict[str, str] = {}
        self._held: set[str] = set()
        self._prepared: dict[str, str] = {}
        self._last_change = 0
        self._behind = 0
        self._away = False
        self._leaving = False
        self.tasks = Tasks("coordination")

    async def start(self, listen: Callable[[ReplicaEvent], None]) -> None:
        """Implements `Replicas.start`; Redis may still be unavailable."""
        self._listen = listen
        self.tasks.forever("listen", self._hear())
        self.tasks.forever("beat", self._beat())

    async def stop(self) -> None:
        """Implements `Replicas.stop`."""
        # If the library fails during cancellation, it raises its error, not CancelledError.
        self._leaving = True
        await self.tasks.stop()
        self._held.clear()
        with contextlib.suppress(Unavailable, *_LIBRARY_ERRORS):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._run(scripts.LEAVE, self.me.name, self._incarnation)
        with contextlib.suppress(*_LIBRARY_ERRORS):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._redis.aclose()

    def members(self) -> Sequence[ReplicaMember]:
        """Implements `Replicas.members`."""
        return [peer.member for peer in self._live.values() if peer.settled]

    def owner(self, repository_id: RepositoryId) -> ReplicaMember | None:
        """Implements `Replicas.owner`."""
        name, _, incarnation = self._owners.get(repository_id, "").partition(" ")
        peer = self._live.get(name)
        return peer.member if peer is not None and peer.incarnation == incarnation else None

    def holds(self, repository_id: RepositoryId) -> bool:
        """Implements `Replicas.holds`."""
        return repository_id in self._held and self._clock.monotonic() < self._good_until

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Implements `Coordinator.claim`; queries Redis only if it does not hold the lease yet."""
        if self.holds(repository_id):
            return True
        if self._clock.monotonic() >= self._good_until:
            return False
        lease = self._lease
        if not await self._run(scripts.CLAIM, repository_id, lease, self._ttl):
            self._held.discard(repository_id)
            return False
        if lease != self._lease:
            return False
        self._held.add(repository_id)
        self._owners[repository_id] = lease
        return True

    async def release(self, repository_id: RepositoryId) -> None:
        """Implements `Coordinator.release`; without Redis the lease expires by itself."""
        if repository_id in self._held:
            self._held.discard(repository_id)
            with contextlib.suppress(Unavailable):
                await self._run(scripts.RELEASE, repository_id, self._lease)

    def prepared(self, repository_id: RepositoryId) -> str | None:
        """Implements `Replicas.prepared`."""
        return self._prepared.get(repository_id)

    async def prepare(self, repository_id: RepositoryId) -> None:
        """Implements `Replicas.prepare`."""
        await self._run(scripts.PREPARE, repository_id, self.me.name)

    async def publish(self, state: RepositoryState) -> bool:
        """Implements `Replicas.publish`; calls this replica's own listener before it returns."""
        name = state.repository_id
        if not self.holds(name):
            return False
        sealed = self._seal.close(f"state {name}", messages.STATE.encode(state))
        if not await self._run(scripts.PUBLISH, name, self._lease, self._ttl, sealed):
            log.warning("state refused: another replica owns it", repository=name)
            self._held.discard(name)
            self._listen(PlacementChanged())
            return False
        self._listen(StatePublished(state))
        return True

    async def hint(self, repository_id: RepositoryId, announced: Mapping[str, str] | None) -> None:
        """Implements `Replicas.hint`."""
        text = messages.HINT.encode(messages.Hint(repository_id, announced))
        sealed = self._seal.close(f"hint {repository_id}", text)
        await self._run(scripts.TELL, "hint", repository_id, sealed)

    @property
    def _lease(self) -> str:
        return f"{self.me.name} {self._incarnation}"

    async def _beat(self) -> None:
        joining = True
        while not self._leaving:
            before = self._clock.monotonic()
            if joining:
                self._forget_leases()
            try:
                joining = not await self._beat_once(joining, before)
                self._say(away=False)
            except Unavailable as error:
                self._say(away=True, reason=error.message)
            if not joining:
                await self._clock.sleep(self._terms.heartbeat)
            elif self._away:
                await self._clock.sleep(min(0.5, self._terms.heartbeat))

    async def _beat_once(self, joining: bool, before: float) -> bool:
        """Sends a heartbeat. Returns False if it was too late and the replica must rejoin."""
        about = (self.me.name, self._incarnation, self.me.address)
        alive, *rest = await self._run(scripts.BEAT, *about, self._ttl, int(joining))
        if not alive:
            log.warning("heartbeat too late, leases lost", replica=self.me.name)
            return False
        # Measured from before the request, because Redis starts its own timer later.
        self._good_until = before + self._terms.lease
        self._take_members(rest[0], rest[2:])
        self._behind = self._behind + 1 if rest[1] != self._last_change else 0
        if self._behind > 1:
            await self._read_all()
        return True

    def _forget_leases(self) -> None:
        self._incarnation = new_id(self._clock.now())
        self._good_until = 0.0
        self._held.clear()
        self._listen(PlacementChanged())

    def _take_members(self, now: int, entries: Sequence[bytes]) -> None:
        live: dict[str, _Peer] = {}
        for entry in entries:
            if (found := _MEMBER.fullmatch(_text(entry))) is not None:
                name, incarnation, joined, address = found.groups()
                settled = now - int(joined) >= self._terms.heartbeat * 1000
                live[name] = _Peer(ReplicaMember(name, address), incarnation, settled)
        if live != self._live:
            self._live = live
            self._listen(PlacementChanged())

    async def _hear(self) -> None:
        """Reads the full state, then events; starts over after every lost connection."""
        while not self._leaving:
            with contextlib.suppress(*_LIBRARY_ERRORS, Unavailable):
                async with self._subscribed() as news:
                    await self._hear_from(news)
            await self._clock.sleep(min(0.5, self._terms.heartbeat))

    async def _hear_from(self, news: PubSub) -> None:
        await self._read_all()
        while not self._leaving:
            message = await news.get_message(
                ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS
            )
            if message is not None:
                self._take(message["data"])

    @contextlib.asynccontextmanager
    async def _subscribed(self) -> AsyncGenerator[PubSub, None]:
        client = Redis.from_pool(_pool(self._url, None))
        news = client.pubsub()
        try:
            await news.subscribe(self._keys[-1])
            await news.get_message(timeout=_ANSWER_SECONDS)
            yield news
        finally:
            with contextlib.suppress(*_LIBRARY_ERRORS):
                await news.aclose()
                await client.aclose()

    async def _read_all(self) -> None:
        """Reads the full state from Redis; keeps local states that Redis lacks."""
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in (2, 3, 4):
                    pipe.hgetall(self._keys[key])
                pipe.get(self._keys[5])
                owners, prepared, states, number = await pipe.execute()
        except _LIBRARY_ERRORS as error:
            raise Unavailable("Redis does not answer") from error
        self._owners = _texts(owners)
        self._prepared = _texts(prepared)
        self._last_change = int(number) if number and number.isdigit() else 0
        for name, sealed in states.items():
            self._take_state(_text(name), sealed)
        self._listen(PlacementChanged())

    def _take(self, data: bytes) -> None:
        found = _NEWS.fullmatch(data)
        if found is None:
            log.error("refused message from Redis: malformed", size=len(data))
            return
        kind, number, name, text = found.groups()
        self._last_change = max(self._last_change, int(number))
        repository = _text(name)
        match kind:
            case b"state":
                self._take_state(repository, text)
            case b"hint":
                self._take_hint(repository, text)
            case b"owner":
                self._owners[repository] = _text(text)
                self._prepared.pop(repository, None)
            case b"prepared":
                self._prepared[repository] = _text(text)
        if kind in {b"owner", b"prepared"}:
            self._listen(PlacementChanged())

    def _take_state(self, name: str, sealed: bytes) -> None:
        # This replica is the owner: an older message must not overwrite what it has published.
        if self.holds(RepositoryId(name)):
            return
        text = self._opened("state", name, sealed)
        if text is not None:
            with _oddities("state"):
                self._listen(StatePublished(messages.STATE.decode(text)))

    def _take_hint(self, name: str, sealed: bytes) -> None:
        text = self._opened("hint", name, sealed)
        if text is not None:
            with _oddities("hint"):
                hint = messages.HINT.decode(text)
                self._listen(HintForwarded(hint.repository_id, hint.announced))

    def _opened(self, kind: str, name: str, sealed: bytes) -> bytes | None:
        text = self._seal.open(f"{kind} {name}", sealed)
        if text is None:
            log.error("refused data from Redis: invalid HMAC", kind=kind, of=name[:80])
        return text

    async def _run(self, script: str, *words: str | bytes | int) -> Any:
        """Runs a script. Raises Unavailable if Redis does not answer."""
        try:
            return await self._redis.eval(script, len(self._keys), *self._keys, *words)
        except _LIBRARY_ERRORS as error:
            raise Unavailable("Redis does not answer", retry_after=1.0) from error

    def _say(self, *, away: bool, reason: str = "") -> None:
        """Logs only changes."""
        if away != self._away:
            self._away = away
            if away:
                log.warning("coordination paused", reason=reason)
            else:
                log.info("coordination resumed")


def _pool(url: str, seconds: float | None) -> BlockingConnectionPool:
    return BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=_ANSWER_SECONDS,
        socket_timeout=seconds,
        socket_connect_timeout=_ANSWER_SECONDS,
        # By default the library retries for 15 s.
        retry=Retry(NoBackoff(), 0),
    )


@contextlib.contextmanager
def _oddities(kind: str) -> Generator[None, None, None]:
    try:
        yield
    except Invalid as error:
        log.error("cannot read a message of another version", kind=kind, why=str(error))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _texts(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in found.items()}
