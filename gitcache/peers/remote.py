"""The client of a separate git cache tier, for control planes."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import structlog

from core.errors import NotFound, TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.runtime.ttl_cache import TTLCache
from core.spec.bundle import Attestation, digest_of
from core.spec.source import Commit, RenderedBundle, RenderRequest, RepositorySpec, RepositoryState
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.domain import messages
from gitcache.domain.messages import Operation, Query, Result
from gitcache.domain.placement import rank_replicas
from gitcache.peers.client import PeerClient
from gitcache.ports import LiveDigests, NotOwner, PeerTimeout, PeerUnavailable, ReplicaMember

log = structlog.get_logger(__name__)

_LIVE_SECONDS = 600.0
_SIGNING_SECONDS = 30.0
_SIGNING = "signing"
_RETRY_SECONDS = 60.0
"""Seconds to retry while servers are busy or do not know the owner of a repository, for example
during a rolling update."""
_ROUND_SECONDS = 0.5
"""Minimum seconds between two rounds: a server without the repository answers at once."""

_MAX_SERVERS = 64
_UNSPECIFIED_ADDRESSES = ("0.0.0.0:", "[::]:", ":")
"""Prefixes of addresses of replicas without a configured public address."""


class RemoteGitCache:
    """Offers the operations of `GitCache` through any server, which forwards to the owner.

    Each server gets the repositories to follow, and all of them again after a reconnect. A few
    configured servers are enough: they report the others, also those that join later.
    """

    def __init__(
        self,
        client: PeerClient,
        servers: Sequence[str],
        clock: Clock,
        live: LiveDigests | None = None,
        *,
        discovery_seconds: float = 10.0,
    ) -> None:
        self._configured_servers = tuple(servers)
        self._discovery_seconds = discovery_seconds
        self._client = client
        self._clock = clock
        self._live = live
        self._specs: dict[RepositoryId, RepositorySpec] = {}
        self._states: dict[RepositoryId, RepositoryState] = {}
        self._callbacks: list[Callable[[RepositoryState], None]] = []
        self._links = {
            server: _ServerLink(ReplicaMember(server, server), client, clock, self)
            for server in servers
        }
        self._signing: TTLCache[str, SigningIdentity] = TTLCache(clock, _SIGNING_SECONDS)
        self.tasks = Tasks("gitcache/remote")

    async def start(self) -> None:
        """Connects to all servers."""
        for name, link in self._links.items():
            link.start(self.tasks, name)
        self.tasks.forever("discover", self._discover_servers())
        self.tasks.forever("live", self._report_live_digests())

    async def stop(self) -> None:
        """Disconnects from all servers, which continue to follow."""
        await self.tasks.stop()
        await self._client.close()

    def parts(self) -> tuple[Tasks, ...]:
        """Task owners whose tasks must not end before `stop`."""
        return (self.tasks,)

    def servers(self) -> tuple[str, ...]:
        """Addresses of the servers in use."""
        return tuple(self._links)

    def specs(self) -> tuple[RepositorySpec, ...]:
        """All followed repositories."""
        return tuple(self._specs.values())

    def follow(self, spec: RepositorySpec) -> None:
        """See `GitCache.follow`."""
        if self._specs.get(spec.id) != spec:
            self._specs[spec.id] = spec
            for link in self._links.values():
                link.add(spec)

    def forget(self, repository_id: RepositoryId) -> None:
        """See `GitCache.forget`."""
        self._states.pop(repository_id, None)
        if self._specs.pop(repository_id, None) is not None:
            for link in self._links.values():
                link.remove(repository_id)

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        """See `GitCache.on_state`."""
        self._callbacks.append(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        """See `GitCache.state`."""
        return self._states.get(repository_id)

    def receive_state(self, state: RepositoryState) -> None:
        """Takes a state from a server; ignores older ones, because servers may lag."""
        previous = self._states.get(state.repository_id)
        if state.repository_id not in self._specs or state == previous:
            return
        if previous is not None and state.polled_at < previous.polled_at:
            return
        self._states[state.repository_id] = state
        for callback in self._callbacks:
            try:
                callback(state)
            except Exception:
                log.exception("state callback failed", repository=state.repository_id)

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """See `GitCache.request_poll`. Unavailable: no server answers."""
        await self._call(repository_id, messages.HINT, messages.Hint(repository_id, announced))

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]:
        """See `GitCache.trees`."""
        query = messages.TreeIdsRequest(repository_id, commit, tuple(folders))
        return await self._call(repository_id, messages.TREES, query)

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """See `GitCache.folders`."""
        query = messages.SubfoldersRequest(repository_id, commit, base, depth)
        return await self._call(repository_id, messages.FOLDERS, query)

    async def files(
        self, repository_id: RepositoryId, commit: str, folder: str, endings: Collection[str]
    ) -> Mapping[str, bytes]:
        """See `GitCache.files`."""
        query = messages.FilesRequest(repository_id, commit, folder, tuple(endings))
        return await self._call(repository_id, messages.FILES, query)

    async def store_bundle(self, data: bytes) -> RenderedBundle:
        """Stores the bundle at all reachable servers, because they do not ask each other for it."""
        rendered = None
        for name in rank_replicas(digest_of(data), self.servers()):
            try:
                rendered = await self._client.store_bundle(ReplicaMember(name, name), data)
            except PeerUnavailable as error:
                log.warning("git cache server unreachable", server=name, reason=error.message)
        if rendered is None:
            raise Unavailable("cannot reach any server of the git cache", retry_after=1.0)
        return rendered

    async def resolve(self, repository_id: RepositoryId, name: str) -> Commit:
        """See `GitCache.resolve`."""
        query = messages.ResolveRequest(repository_id, name)
        return await self._call(repository_id, messages.RESOLVE, query)

    async def render(self, request: RenderRequest) -> RenderedBundle:
        """See `GitCache.render`."""
        return await self._call(request.repository_id, messages.RENDER, request)

    async def bundle(self, digest: str) -> bytes:
        """See `GitCache.bundle`; a server that knows its inputs may render it again."""
        data = await self._try_servers(
            digest, lambda server: self._client.bundle(server, digest), any_may_have_it=True
        )
        if digest_of(data) != digest:
            raise Unavailable(f"the git cache sent content that does not match {digest}")
        return data

    async def signing_identity(self) -> SigningIdentity:
        """See `GitCache.signing_identity`; remembers it for a while."""
        identity = self._signing.get(_SIGNING)
        if identity is None:
            identity = await self._try_servers(_SIGNING, self._client.signing_identity)
            self._signing.put(_SIGNING, identity)
        return identity

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> list[Attestation]:
        """See `GitCache.sign_orders`."""
        return await self._call(_SIGNING, messages.SIGN_ORDERS, list(requests))

    async def renew(self, attestation: Attestation) -> Attestation:
        """See `GitCache.renew`."""
        (renewed,) = await self._call(_SIGNING, messages.RENEW, [attestation])
        return renewed

    async def _call(self, key: str, operation: Operation[Query, Result], query: Query) -> Result:
        return await self._try_servers(
            key, lambda server: self._client.call(server, operation, query)
        )

    async def _try_servers(
        self,
        key: str,
        request: Callable[[ReplicaMember], Awaitable[Result]],
        *,
        any_may_have_it: bool = False,
    ) -> Result:
        """Tries servers in an order fixed by the key, silent ones last.

        Repeats while a server is still working on the request or does not know the owner. With
        `any_may_have_it`, raises NotFound only if every reachable server does.
        """
        began = next_round = self._clock.monotonic()
        failures: list[TowlineError] = [PeerTimeout("not asked yet")]
        while (now := self._clock.monotonic()) - began < _retry_seconds(failures):
            if now < next_round:
                await self._clock.sleep(next_round - now)
            next_round, failures = self._clock.monotonic() + _ROUND_SECONDS, []
            for name in self._ranked_servers(key):
                try:
                    return await request(ReplicaMember(name, name))
                except PeerUnavailable as error:
                    failures.append(error)
                    log.warning("git cache server unreachable", server=name, reason=error.message)
                except NotFound as error:
                    if not any_may_have_it:
                        raise
                    failures.append(error)
        for error in failures:
            if isinstance(error, NotFound):
                raise error
        problem = "did not answer in time" if _retry_seconds(failures) else "cannot be reached"
        raise Unavailable(f"the git cache {problem}; the control plane will retry", retry_after=1.0)

    def _ranked_servers(self, key: str) -> list[str]:
        return sorted(
            rank_replicas(key, self.servers()), key=lambda name: self._links[name].is_silent
        )

    async def _discover_servers(self) -> None:
        """Asks the servers periodically for other servers."""
        while True:
            await self._clock.sleep(self._discovery_seconds)
            answers = [
                answer for name in self.servers() if (answer := await self._addresses_of(name))
            ]
            self._update_servers(
                {name for addresses in answers for name in addresses.members},
                {addresses.me for addresses in answers},
            )

    async def _addresses_of(self, name: str) -> messages.ReplicaAddresses | None:
        try:
            return await self._client.members(ReplicaMember(name, name))
        except TowlineError as error:
            log.info("server discovery failed", server=name, why=error.message)
            return None

    def _update_servers(self, members: set[str], reached: set[str]) -> None:
        """Connects to new members and disconnects from those that have left.

        Keeps configured servers, and keeps all servers if none has answered.
        """
        for name in set(self._links) - members - set(self._configured_servers) if members else ():
            self._links.pop(name).stop()
        for name in sorted(members - reached - set(self._links)):
            if not name.startswith(_UNSPECIFIED_ADDRESSES) and len(self._links) < _MAX_SERVERS:
                self._links[name] = _ServerLink(
                    ReplicaMember(name, name), self._client, self._clock, self
                )
                self._links[name].start(self.tasks, name)

    async def _report_live_digests(self) -> None:
        while True:
            await self._clock.sleep(_LIVE_SECONDS)
            try:
                digests = await self._live.live_digests() if self._live is not None else None
                for name in self.servers() if digests is not None else ():
                    server = ReplicaMember(name, name)
                    await self._client.call(server, messages.LIVE_DIGESTS, list(digests or ()))
            except TowlineError as error:
                log.warning("reporting live bundles failed", reason=error.message)


def _retry_seconds(failures: Collection[TowlineError]) -> float:
    """Returns the seconds to retry; zero unless a server is busy or does not know the owner."""
    return (
        _RETRY_SECONDS
        if any(isinstance(error, PeerTimeout | NotOwner) for error in failures)
        else 0.0
    )


class _ServerLink:
    """The connection to one server; `is_silent` after the loss of its stream of states.

    Logs only changes, because a server may be unreachable for days.
    """

    def __init__(
        self, server: ReplicaMember, client: PeerClient, clock: Clock, remote: RemoteGitCache
    ) -> None:
        self._server = server
        self._client = client
        self._clock = clock
        self._remote = remote
        self._added: dict[RepositoryId, RepositorySpec] = {}
        self._removed: set[RepositoryId] = set()
        self._wake = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._is_update_sent = True
        self.is_silent = False

    def start(self, tasks: Tasks, name: str) -> None:
        """Starts sending the repositories to follow and receiving states."""
        self._running = [
            tasks.forever(f"send/{name}", self.send_updates()),
            tasks.forever(f"receive/{name}", self.stream_states()),
        ]

    def stop(self) -> None:
        """Stops both tasks."""
        for task in self._running:
            task.cancel()

    def add(self, spec: RepositorySpec) -> None:
        self._added[spec.id] = spec
        self._removed.discard(spec.id)
        self._wake.set()

    def remove(self, repository_id: RepositoryId) -> None:
        self._added.pop(repository_id, None)
        self._removed.add(repository_id)
        self._wake.set()

    async def send_updates(self) -> None:
        """Sends changes of the followed repositories, or all if the server may have lost them."""
        backoff = Backoff(first=0.2, limit=5.0)
        while True:
            await self._wake.wait()
            self._wake.clear()
            added, self._added = self._added, {}
            removed, self._removed = self._removed, set()
            update = messages.FollowUpdate(tuple(added.values()), tuple(removed))
            try:
                await self._client.call(self._server, messages.FOLLOW, update)
                self._is_update_sent = True
                backoff.reset()
            except TowlineError as error:
                if self._is_update_sent:
                    log.info(
                        "sending followed repositories failed",
                        server=self._server.name,
                        why=error.message,
                    )
                self._is_update_sent = False
                self._added = added | self._added
                self._removed |= removed
                await self._clock.sleep(backoff.next())
                self._wake.set()

    async def stream_states(self) -> None:
        """Receives states; after each reconnect, queues all followed repositories again."""
        backoff = Backoff(first=0.2, limit=5.0)

        def on_state(state: RepositoryState) -> None:
            backoff.reset()
            if self.is_silent:
                log.info("git cache server reconnected", server=self._server.name)
            self.is_silent = False
            self._remote.receive_state(state)

        while True:
            for spec in self._remote.specs():
                self.add(spec)
            try:
                await self._client.stream_states(self._server, on_state)
            except TowlineError as error:
                if not self.is_silent:
                    log.info(
                        "git cache server disconnected", server=self._server.name, why=error.message
                    )
            self.is_silent = True
            await self._clock.sleep(backoff.next())
