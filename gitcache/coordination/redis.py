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
        authenticator: MessageAuthenticator,
        clock: Clock,
        terms: LeaseTerms | None = None,
    ) -> None:
        self.me = me
        self._url = url
        self._authenticator = authenticator
        self._clock = clock
        self._terms = terms or LeaseTerms()
        self._ttl = int(self._terms.lease * 1000)
        self._redis = Redis.from_pool(_connection_pool(url, _ANSWER_SECONDS))
        self._keys = [f"{_PREFIX}:{name}" for name in _KEYS]
        self._listen: Callable[[ReplicaEvent], None] = lambda news: None
        self._incarnation = ""
        self._lease_valid_until = 0.0
        self._present: dict[str, _Peer] = {}
        self._owners: dict[str, str] = {}
        self._leased: set[str] = set()
        self._prepared: dict[str, str] = {}
        self._last_change = 0
        self._lagging_beats = 0
        self._is_away = False
        self._leaving = False
        self.tasks = Tasks("coordination")

    async def start(self, listen: Callable[[ReplicaEvent], None]) -> None:
        """Implements `Replicas.start`; Redis may still be unavailable."""
        self._listen = listen
        self.tasks.forever("listen", self._follow_events())
        self.tasks.forever("beat", self._send_heartbeats())

    async def stop(self) -> None:
        """Implements `Replicas.stop`."""
        # If the library fails during cancellation, it raises its error, not CancelledError.
        self._leaving = True
        await self.tasks.stop()
        self._leased.clear()
        with contextlib.suppress(Unavailable, *_LIBRARY_ERRORS):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._run_script(scripts.LEAVE, self.me.name, self._incarnation)
        with contextlib.suppress(*_LIBRARY_ERRORS):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._redis.aclose()

    def members(self) -> Sequence[ReplicaMember]:
        """Implements `Replicas.members`."""
        return [peer.member for peer in self._present.values() if peer.settled]

    def owner(self, repository_id: RepositoryId) -> ReplicaMember | None:
        """Implements `Replicas.owner`."""
        name, _, incarnation = self._owners.get(repository_id, "").partition(" ")
        peer = self._present.get(name)
        return peer.member if peer is not None and peer.incarnation == incarnation else None

    def holds_lease(self, repository_id: RepositoryId) -> bool:
        """Implements `Replicas.holds_lease`."""
        return repository_id in self._leased and self._clock.monotonic() < self._lease_valid_until

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Implements `Coordinator.claim`; queries Redis only if it does not hold the lease yet."""
        if self.holds_lease(repository_id):
            return True
        if self._clock.monotonic() >= self._lease_valid_until:
            return False
        lease = self._lease
        if not await self._run_script(scripts.CLAIM, repository_id, lease, self._ttl):
            self._leased.discard(repository_id)
            return False
        if lease != self._lease:
            return False
        self._leased.add(repository_id)
        self._owners[repository_id] = lease
        return True

    async def release(self, repository_id: RepositoryId) -> None:
        """Implements `Coordinator.release`; without Redis the lease expires by itself."""
        if repository_id in self._leased:
            self._leased.discard(repository_id)
            with contextlib.suppress(Unavailable):
                await self._run_script(scripts.RELEASE, repository_id, self._lease)

    def prepared_replica(self, repository_id: RepositoryId) -> str | None:
        """Implements `Replicas.prepared_replica`."""
        return self._prepared.get(repository_id)

    async def announce_prepared(self, repository_id: RepositoryId) -> None:
        """Implements `Replicas.announce_prepared`."""
        await self._run_script(scripts.PREPARE, repository_id, self.me.name)

    async def publish(self, state: RepositoryState) -> bool:
        """Implements `Replicas.publish`; calls this replica's own listener before it returns."""
        name = state.repository_id
        if not self.holds_lease(name):
            return False
        signed = self._authenticator.sign(f"state {name}", messages.STATE.encode(state))
        if not await self._run_script(scripts.PUBLISH, name, self._lease, self._ttl, signed):
            log.warning("state refused: another replica owns it", repository=name)
            self._leased.discard(name)
            self._listen(PlacementChanged())
            return False
        self._listen(StatePublished(state))
        return True

    async def forward_hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None
    ) -> None:
        """Implements `Replicas.forward_hint`."""
        text = messages.HINT.query.encode(messages.Hint(repository_id, announced))
        signed = self._authenticator.sign(f"hint {repository_id}", text)
        await self._run_script(scripts.TELL, "hint", repository_id, signed)

    @property
    def _lease(self) -> str:
        return f"{self.me.name} {self._incarnation}"

    async def _send_heartbeats(self) -> None:
        joining = True
        while not self._leaving:
            sent_at = self._clock.monotonic()
            if joining:
                self._start_incarnation()
            try:
                joining = not await self._send_heartbeat(joining, sent_at)
                self._set_away(is_away=False)
            except Unavailable as error:
                self._set_away(is_away=True, reason=error.message)
            if not joining:
                await self._clock.sleep(self._terms.heartbeat)
            elif self._is_away:
                await self._clock.sleep(min(0.5, self._terms.heartbeat))

    async def _send_heartbeat(self, joining: bool, sent_at: float) -> bool:
        """Sends a heartbeat. Returns False if it was too late and the replica must rejoin."""
        about = (self.me.name, self._incarnation, self.me.address)
        alive, *reply = await self._run_script(scripts.BEAT, *about, self._ttl, int(joining))
        if not alive:
            log.warning("heartbeat too late, leases lost", replica=self.me.name)
            return False
        # Measured from before the request, because Redis starts its own timer later.
        self._lease_valid_until = sent_at + self._terms.lease
        self._update_members(reply[0], reply[2:])
        self._lagging_beats = self._lagging_beats + 1 if reply[1] != self._last_change else 0
        if self._lagging_beats > 1:
            await self._read_state()
        return True

    def _start_incarnation(self) -> None:
        self._incarnation = new_id(self._clock.now())
        self._lease_valid_until = 0.0
        self._leased.clear()
        self._listen(PlacementChanged())

    def _update_members(self, now: int, entries: Sequence[bytes]) -> None:
        present: dict[str, _Peer] = {}
        for entry in entries:
            if (match := _MEMBER.fullmatch(_decode(entry))) is not None:
                name, incarnation, joined, address = match.groups()
                settled = now - int(joined) >= self._terms.heartbeat * 1000
                present[name] = _Peer(ReplicaMember(name, address), incarnation, settled)
        if present != self._present:
            self._present = present
            self._listen(PlacementChanged())

    async def _follow_events(self) -> None:
        """Reads the full state, then events; starts over after every lost connection."""
        while not self._leaving:
            with contextlib.suppress(*_LIBRARY_ERRORS, Unavailable):
                async with self._subscription() as pubsub:
                    await self._read_events(pubsub)
            await self._clock.sleep(min(0.5, self._terms.heartbeat))

    async def _read_events(self, pubsub: PubSub) -> None:
        await self._read_state()
        while not self._leaving:
            message = await pubsub.get_message(
                ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS
            )
            if message is not None:
                self._handle_event(message["data"])

    @contextlib.asynccontextmanager
    async def _subscription(self) -> AsyncGenerator[PubSub, None]:
        client = Redis.from_pool(_connection_pool(self._url, None))
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._keys[-1])
            await pubsub.get_message(timeout=_ANSWER_SECONDS)
            yield pubsub
        finally:
            with contextlib.suppress(*_LIBRARY_ERRORS):
                await pubsub.aclose()
                await client.aclose()

    async def _read_state(self) -> None:
        """Reads the full state from Redis; keeps local states that Redis lacks."""
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in (2, 3, 4):
                    pipe.hgetall(self._keys[key])
                pipe.get(self._keys[5])
                owners, prepared, states, number = await pipe.execute()
        except _LIBRARY_ERRORS as error:
            raise Unavailable("Redis does not answer") from error
        self._owners = _decode_map(owners)
        self._prepared = _decode_map(prepared)
        self._last_change = int(number) if number and number.isdigit() else 0
        for name, signed in states.items():
            self._handle_state(_decode(name), signed)
        self._listen(PlacementChanged())

    def _handle_event(self, data: bytes) -> None:
        match = _NEWS.fullmatch(data)
        if match is None:
            log.error("refused message from Redis: malformed", size=len(data))
            return
        kind, number, name, text = match.groups()
        self._last_change = max(self._last_change, int(number))
        repository = _decode(name)
        match kind:
            case b"state":
                self._handle_state(repository, text)
            case b"hint":
                self._handle_hint(repository, text)
            case b"owner":
                self._owners[repository] = _decode(text)
                self._prepared.pop(repository, None)
            case b"prepared":
                self._prepared[repository] = _decode(text)
        if kind in {b"owner", b"prepared"}:
            self._listen(PlacementChanged())

    def _handle_state(self, name: str, signed: bytes) -> None:
        # This replica is the owner: an older message must not overwrite what it has published.
        if self.holds_lease(RepositoryId(name)):
            return
        text = self._verify("state", name, signed)
        if text is not None:
            with _log_unreadable("state"):
                self._listen(StatePublished(messages.STATE.decode(text)))

    def _handle_hint(self, name: str, signed: bytes) -> None:
        text = self._verify("hint", name, signed)
        if text is not None:
            with _log_unreadable("hint"):
                hint = messages.HINT.query.decode(text)
                self._listen(HintForwarded(hint.repository_id, hint.announced))

    def _verify(self, kind: str, name: str, signed: bytes) -> bytes | None:
        text = self._authenticator.verify(f"{kind} {name}", signed)
        if text is None:
            log.error("refused data from Redis: invalid HMAC", kind=kind, of=name[:80])
        return text

    async def _run_script(self, script: str, *arguments: str | bytes | int) -> Any:
        """Runs a script. Raises Unavailable if Redis does not answer."""
        try:
            return await self._redis.eval(script, len(self._keys), *self._keys, *arguments)
        except _LIBRARY_ERRORS as error:
            raise Unavailable("Redis does not answer", retry_after=1.0) from error

    def _set_away(self, *, is_away: bool, reason: str = "") -> None:
        """Logs only changes."""
        if is_away != self._is_away:
            self._is_away = is_away
            if is_away:
                log.warning("coordination paused", reason=reason)
            else:
                log.info("coordination resumed")


def _connection_pool(url: str, socket_timeout: float | None) -> BlockingConnectionPool:
    return BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=_ANSWER_SECONDS,
        socket_timeout=socket_timeout,
        socket_connect_timeout=_ANSWER_SECONDS,
        # By default the library retries for 15 s.
        retry=Retry(NoBackoff(), 0),
    )


@contextlib.contextmanager
def _log_unreadable(kind: str) -> Generator[None, None, None]:
    try:
        yield
    except Invalid as error:
        log.error("cannot read a message of another version", kind=kind, why=str(error))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _decode_map(values: Mapping[bytes, bytes]) -> dict[str, str]:
    return {_decode(name): _decode(value) for name, value in values.items()}
