"""HTTP client of a replica's internal API: operations, bundles, states."""

import ssl
from collections.abc import Callable, Sequence
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
from core.json_object import JsonObject
from core.spec.bundle import digest_of
from core.spec.source import RenderedBundle, RenderRequest, RepositoryState
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.domain import messages
from gitcache.domain.messages import Operation, Query, Result
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
_LOST_CONNECTIONS = (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError)
_ERRORS: dict[str, type[TowlineError]] = {
    kind.code: kind
    for kind in (Unauthenticated, Forbidden, NotFound, Invalid, Conflict, LimitExceeded)
}


class PeerClient:
    """A client with pooled connections to replicas.

    `hop` marks the caller as a replica; its `nearest` store keeps small bundles that come with
    renders. Raises PeerTimeout without data for `idle` seconds or a connection within 5 s.
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
        self._short_timeout = _timeout(min(IDLE_SECONDS, idle))
        self._headers = {HOP_HEADER: "1"} if hop else {}
        self._session: aiohttp.ClientSession | None = None
        self._sockets = OpenSockets()

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            await self._sockets.end()

    async def call(
        self, member: ReplicaMember, operation: Operation[Query, Result], query: Query
    ) -> Result:
        """Implements `PeerOperations.call`."""
        timeout = self._short_timeout if operation.quick else None
        body = operation.query.encode(query)
        answer = await self._request(member.address, "POST", operation.path, body, timeout)
        return operation.result.decode(answer)

    async def render(self, member: ReplicaMember, request: RenderRequest) -> RenderedBundle:
        """Implements `PeerOperations.render`."""
        if self._nearest is None:
            return await self.call(member, messages.RENDER, request)
        body = messages.RENDER.query.encode(request)
        return await self._render_with_bundle(member, body, self._nearest)

    async def _render_with_bundle(
        self, member: ReplicaMember, body: bytes, nearest: ContentStore
    ) -> RenderedBundle:
        answer = await self._request(member.address, "POST", "/v1/artefact", body)
        text, *contents = messages.split_contents(answer)
        rendered = messages.RENDER.result.decode(text)
        for data in contents:
            # A bundle that cannot be stored is fetched later, like any other.
            if digest_of(data) == rendered.digest:
                with suppress(Unavailable):
                    await nearest.put(rendered.digest, data)
        return rendered

    async def bundle(self, member: ReplicaMember, digest: str) -> bytes:
        """Downloads a bundle, without verification. Raises NotFound, PeerUnavailable."""
        return await self._request(member.address, "GET", f"/v1/bundles/{digest}")

    async def store_copies(self, member: ReplicaMember, contents: Sequence[bytes]) -> None:
        """Stores copies of bundles at the replica. Raises PeerUnavailable."""
        await self._request(member.address, "PUT", "/v1/bundles", messages.join_contents(contents))

    async def store_bundle(self, member: ReplicaMember, data: bytes) -> RenderedBundle:
        """See `GitCache.store_bundle`. Raises PeerUnavailable."""
        answer = await self._request(member.address, "POST", "/v1/bundles", data)
        return messages.RENDER.result.decode(answer)

    async def members(self, member: ReplicaMember) -> messages.ReplicaAddresses:
        """Returns the addresses of the replica and of all replicas. Raises PeerUnavailable."""
        return messages.REPLICA_ADDRESSES.decode(
            await self._request(member.address, "GET", "/v1/members")
        )

    async def signing_identity(self, member: ReplicaMember) -> SigningIdentity:
        """See `GitCache.signing_identity`. Raises PeerUnavailable."""
        answer = await self._request(member.address, "GET", "/v1/signing")
        (identity,) = messages.SIGNING_IDENTITIES.decode(answer)
        return identity

    async def stream_states(
        self, member: ReplicaMember, on_state: Callable[[RepositoryState], None]
    ) -> None:
        """Streams all states, then each change. Raises PeerUnavailable at the end of the stream."""
        try:
            async with self._open_session().get(
                f"https://{member.address}/v1/states", timeout=self._short_timeout
            ) as answer:
                await _raise_for_status(answer)
                async for line in answer.content:
                    if line := line.strip():
                        on_state(messages.STATE.decode(line))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailable(
                f"cannot reach replica {member.address}", retry_after=1.0
            ) from error

    async def _request(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None = None,
        idle_limit: aiohttp.ClientTimeout | None = None,
    ) -> bytes:
        """Sends a request; retries once after a lost connection."""
        try:
            return await self._request_once(
                address, method, path, body, idle_limit or self._timeout
            )
        except PeerUnavailable as error:
            if not isinstance(error.__cause__, _LOST_CONNECTIONS):
                raise
        return await self._request_once(address, method, path, body, idle_limit or self._timeout)

    async def _request_once(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None,
        idle_limit: aiohttp.ClientTimeout,
    ) -> bytes:
        url = f"https://{address}{path}"
        try:
            async with self._open_session().request(
                method, url, data=body, timeout=idle_limit, allow_redirects=False
            ) as answer:
                await _raise_for_status(answer)
                return await answer.read()
        except (aiohttp.SocketTimeoutError, aiohttp.ConnectionTimeoutError) as error:
            raise PeerTimeout(
                f"timed out waiting for replica {address}", retry_after=1.0
            ) from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailable(f"cannot reach replica {address}", retry_after=1.0) from error

    def _open_session(self) -> aiohttp.ClientSession:
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


async def _raise_for_status(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    problem = _parse_problem(await answer.content.read(1 << 16))
    text = str(problem.get("message", "")) or f"a replica answered {answer.status}"
    if answer.status == MISDIRECTED:
        raise NotOwner(text, retry_after=1.0)
    kind = _ERRORS.get(str(problem.get("code")))
    if kind is not None:
        raise kind(text)
    if problem.get("code") == Code.UNAVAILABLE:
        raise Unavailable(text, retry_after=problem.get("retry_after"))
    raise PeerUnavailable(text, retry_after=1.0)


def _parse_problem(data: bytes) -> JsonObject:
    try:
        problem = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return problem if isinstance(problem, dict) else {}
