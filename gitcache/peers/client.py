"""HTTP client of a replica's internal API: operations, bundles, states."""

import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import aiohttp
import orjson

from core.errors import (
    Code,
    Conflict,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    TowlineError,
    Unauthenticated,
    Unavailable,
)
from core.identity import RepositoryId
from core.json_object import JsonObject
from core.spec.bundle import Attestation, digest_of
from core.spec.source import Commit, RenderedBundle, RenderRequest, RepositoryState
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.domain import messages
from gitcache.peers.sockets import OpenSockets
from gitcache.ports import ContentStore, NotOwner, PeerTimeout, PeerUnavailable, ReplicaMember

HOP_HEADER = "Towline-Hop"
"""Header of requests between replicas; the receiver does not forward them."""

MISDIRECTED = 421
MAX_BUNDLE = 64 << 20
MAX_COPIES = MAX_BUNDLE + 4096
"""Maximum bytes of one upload of copies, with their lengths."""

IDLE_SECONDS = 5.0
"""Maximum silence of a stream of states."""

ANSWER_SECONDS = 20.0
"""Time-out of a request before its retry. A retry does not repeat the work, but early retries
would add load to a busy replica."""

KEEPALIVE_SECONDS = 60
"""Keep-alive time of an idle connection."""

_CONNECTIONS = 32
_BROKEN = (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError)
_ERRORS: dict[str, type[TowlineError]] = {
    kind.code: kind
    for kind in (Unauthenticated, Forbidden, NotFound, Invalid, Conflict, LimitExceeded)
}


class PeerClient:
    """A client with pooled connections to replicas.

    `hop` marks the caller as a replica; its `nearest` store keeps small bundles that come with
    renders. Raises PeerSlow without data for `idle` seconds or a connection within 5 s.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        hop: bool,
        nearest: ContentStore | None = None,
        idle: float = ANSWER_SECONDS,
    ) -> None:
        self._context = context
        self._nearest = nearest
        self._timeout = _timeout(idle)
        self._soon = _timeout(min(IDLE_SECONDS, idle))
        self._headers = {HOP_HEADER: "1"} if hop else {}
        self._session: aiohttp.ClientSession | None = None
        self._sockets = OpenSockets()

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            await self._sockets.end()

    async def trees(
        self,
        member: ReplicaMember,
        repository_id: RepositoryId,
        commit: str,
        folders: Collection[str],
    ) -> Mapping[str, str | None]:
        """See `Peers.trees`."""
        asked = messages.TreeIdsRequest(repository_id, commit, tuple(folders))
        body = messages.TREE_IDS_REQUEST.encode(asked)
        return messages.TREES.decode(await self._ask(member.address, "POST", "/v1/trees", body))

    async def folders(
        self, member: ReplicaMember, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """See `Peers.folders`."""
        body = messages.SUBFOLDERS_REQUEST.encode(
            messages.SubfoldersRequest(repository_id, commit, base, depth)
        )
        return messages.PATHS.decode(await self._ask(member.address, "POST", "/v1/folders", body))

    async def files(
        self,
        member: ReplicaMember,
        repository_id: RepositoryId,
        commit: str,
        folder: str,
        endings: Collection[str],
    ) -> Mapping[str, bytes]:
        """See `PeerOperations.files`."""
        body = messages.FILES_REQUEST.encode(
            messages.FilesRequest(repository_id, commit, folder, tuple(endings))
        )
        return messages.FILES.decode(await self._ask(member.address, "POST", "/v1/files", body))

    async def store_bundle(self, member: ReplicaMember, data: bytes) -> RenderedBundle:
        """See `GitCache.keep`."""
        answer = await self._ask(member.address, "POST", "/v1/bundles", data)
        return messages.RENDERED.decode(answer)

    async def resolve(
        self, member: ReplicaMember, repository_id: RepositoryId, name: str
    ) -> Commit:
        """See `Peers.resolve`."""
        body = messages.RESOLVE_REQUEST.encode(messages.ResolveRequest(repository_id, name))
        return messages.COMMIT.decode(await self._ask(member.address, "POST", "/v1/resolve", body))

    async def render(self, member: ReplicaMember, request: RenderRequest) -> RenderedBundle:
        """See `Peers.render`."""
        body = messages.REQUEST.encode(request)
        if self._nearest is not None:
            return await self._artefact(member, body, self._nearest)
        answer = await self._ask(member.address, "POST", "/v1/render", body)
        return messages.RENDERED.decode(answer)

    async def _artefact(
        self, member: ReplicaMember, body: bytes, nearest: ContentStore
    ) -> RenderedBundle:
        answer = await self._ask(member.address, "POST", "/v1/artefact", body)
        text, *contents = messages.split_contents(answer)
        rendered = messages.RENDERED.decode(text)
        for data in contents:
            # A bundle that cannot be stored is fetched later, like any other.
            if digest_of(data) == rendered.digest:
                with suppress(Unavailable):
                    await nearest.put(rendered.digest, data)
        return rendered

    async def bundle(self, member: ReplicaMember, digest: str) -> bytes:
        """Downloads a bundle, without verification. Raises NotFound, PeerAway."""
        return await self._ask(member.address, "GET", f"/v1/bundles/{digest}")

    async def keep(self, member: ReplicaMember, contents: Sequence[bytes]) -> None:
        """Stores copies of bundles at the replica. Raises PeerAway."""
        await self._ask(member.address, "PUT", "/v1/bundles", messages.join_contents(contents))

    async def hint(self, member: ReplicaMember, hint: messages.Hint) -> None:
        """Forwards a hint; the replica answers before it acts. Raises PeerAway."""
        body = messages.HINT.encode(hint)
        await self._ask(member.address, "POST", "/v1/hint", body, self._soon)

    async def update_followed(self, member: ReplicaMember, wishes: messages.FollowUpdate) -> None:
        """Sends the repositories to follow and to forget. Raises PeerAway."""
        await self._ask(member.address, "POST", "/v1/wishes", messages.FOLLOW_UPDATE.encode(wishes))

    async def report_live_digests(self, member: ReplicaMember, digests: Collection[str]) -> None:
        """Sends the digests of the bundles in use. Raises PeerAway."""
        body = messages.DIGESTS.encode(list(digests))
        await self._ask(member.address, "POST", "/v1/live", body)

    async def company(self, member: ReplicaMember) -> messages.ReplicaAddresses:
        """Returns the addresses of the replica and of all replicas. Raises PeerAway."""
        return messages.REPLICA_ADDRESSES.decode(
            await self._ask(member.address, "GET", "/v1/members")
        )

    async def signing_identity(self, member: ReplicaMember) -> SigningIdentity | None:
        """See `GitCache.signing_identity`. Raises PeerAway."""
        answer = await self._ask(member.address, "GET", "/v1/signing")
        return next(iter(messages.SIGNING_IDENTITIES.decode(answer)), None)

    async def sign_orders(
        self, member: ReplicaMember, requests: Sequence[OrderRequest]
    ) -> list[Attestation]:
        """See `GitCache.sign_orders`. Raises PeerAway."""
        body = messages.ORDER_REQUESTS.encode(list(requests))
        return messages.ATTESTATIONS.decode(
            await self._ask(member.address, "POST", "/v1/orders", body)
        )

    async def renew(self, member: ReplicaMember, attestation: Attestation) -> Attestation:
        """See `GitCache.renew`. Raises PeerAway."""
        body = messages.ATTESTATIONS.encode([attestation])
        answer = await self._ask(member.address, "POST", "/v1/attestation", body)
        (renewed,) = messages.ATTESTATIONS.decode(answer)
        return renewed

    async def stream_states(
        self, member: ReplicaMember, take: Callable[[RepositoryState], None]
    ) -> None:
        """Streams all states, then each change. Raises PeerAway at the end of the stream."""
        try:
            async with self._open().get(
                f"https://{member.address}/v1/states", timeout=self._soon
            ) as answer:
                await _check(answer)
                async for line in answer.content:
                    if line := line.strip():
                        take(messages.STATE.decode(line))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailable(
                f"cannot reach replica {member.address}", retry_after=1.0
            ) from error

    async def _ask(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None = None,
        patience: aiohttp.ClientTimeout | None = None,
    ) -> bytes:
        """Sends a request; retries once after a lost connection."""
        try:
            return await self._once(address, method, path, body, patience or self._timeout)
        except PeerUnavailable as error:
            if not isinstance(error.__cause__, _BROKEN):
                raise
        return await self._once(address, method, path, body, patience or self._timeout)

    async def _once(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None,
        patience: aiohttp.ClientTimeout,
    ) -> bytes:
        url = f"https://{address}{path}"
        try:
            async with self._open().request(
                method, url, data=body, timeout=patience, allow_redirects=False
            ) as answer:
                await _check(answer)
                return await answer.read()
        except (aiohttp.SocketTimeoutError, aiohttp.ConnectionTimeoutError) as error:
            raise PeerTimeout(
                f"timed out waiting for replica {address}", retry_after=1.0
            ) from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailable(f"cannot reach replica {address}", retry_after=1.0) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._context,
                limit=0,
                limit_per_host=_CONNECTIONS,
                keepalive_timeout=KEEPALIVE_SECONDS,
                socket_factory=self._sockets.make,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=messages.MAX_MESSAGE,
            )
        return self._session


def _timeout(idle: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=min(5.0, idle), sock_read=idle)


async def _check(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    problem = _problem(await answer.content.read(1 << 16))
    text = str(problem.get("message", "")) or f"a replica answered {answer.status}"
    if answer.status == MISDIRECTED:
        raise NotOwner(text, retry_after=1.0)
    kind = _ERRORS.get(str(problem.get("code")))
    if kind is not None:
        raise kind(text)
    if problem.get("code") == Code.UNAVAILABLE:
        raise Unavailable(text, retry_after=problem.get("retry_after"))
    raise PeerUnavailable(text, retry_after=1.0)


def _problem(data: bytes) -> JsonObject:
    try:
        problem = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return problem if isinstance(problem, dict) else {}
