"""The internal HTTP API of a replica; callers are authenticated by mutual TLS.

Errors are JSON with the fields `code`, `message` and `retry_after`.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from typing import Protocol

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from core.errors import Code, LimitExceeded, NotFound, TowlineError
from core.identity import RepositoryId
from core.spec.bundle import Attestation, digest_of
from core.spec.source import Commit, RenderedBundle, RenderRequest, RepositorySpec, RepositoryState
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.domain import messages
from gitcache.peers.client import HOP_HEADER, IDLE_SECONDS, MAX_BUNDLE, MAX_COPIES, MISDIRECTED
from gitcache.ports import ContentStore, PeerUnavailable, ReplicaMember

log = structlog.get_logger(__name__)

_STATUS = {
    Code.INVALID: 400,
    Code.NOT_FOUND: 404,
    Code.CONFLICT: 409,
    Code.LIMIT: 413,
    Code.UNAVAILABLE: 503,
}

_BUNDLE = "/v1/bundles/"
_MAX_INLINE_BUNDLE = 256 << 10

Endpoint = Callable[[Request], Awaitable[Response]]


class ServedGitCache(Protocol):
    """The git cache, as the API uses it."""

    def follow(self, spec: RepositorySpec) -> None: ...

    def forget(self, repository_id: RepositoryId) -> None: ...

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None: ...

    def states(self) -> Collection[RepositoryState]: ...

    def replica_members(self) -> tuple[ReplicaMember, Sequence[ReplicaMember]]: ...

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None: ...

    async def trees(
        self,
        repository_id: RepositoryId,
        commit: str,
        folders: Collection[str],
        *,
        local_only: bool = False,
    ) -> Mapping[str, str | None]: ...

    async def folders(
        self,
        repository_id: RepositoryId,
        commit: str,
        base: str,
        depth: int,
        *,
        local_only: bool = False,
    ) -> list[str]: ...

    async def files(
        self,
        repository_id: RepositoryId,
        commit: str,
        folder: str,
        endings: Collection[str],
        *,
        local_only: bool = False,
    ) -> Mapping[str, bytes]: ...

    async def store_bundle(self, data: bytes) -> RenderedBundle: ...

    async def resolve(
        self, repository_id: RepositoryId, name: str, *, local_only: bool = False
    ) -> Commit: ...

    async def render(
        self, request: RenderRequest, *, local_only: bool = False
    ) -> RenderedBundle: ...

    async def bundle(self, digest: str) -> bytes: ...

    async def signing_identity(self) -> SigningIdentity | None: ...

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> list[Attestation]: ...

    async def renew(self, attestation: Attestation) -> Attestation: ...


class PeerApi:
    """Serves replicas and control planes. `nearest` is the local content store.

    `on_live_digests` gets the digests that a control plane still needs.
    """

    def __init__(
        self,
        cache: ServedGitCache,
        nearest: ContentStore,
        on_live_digests: Callable[[Collection[str]], None],
    ) -> None:
        self._cache = cache
        self._nearest = nearest
        self._on_live_digests = on_live_digests
        self._streams: set[_StateStream] = set()
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {
            ("POST", "/v1/trees"): self._trees,
            ("POST", "/v1/folders"): self._folders,
            ("POST", "/v1/files"): self._files,
            ("POST", "/v1/resolve"): self._resolve,
            ("POST", "/v1/render"): self._render,
            ("POST", "/v1/artefact"): self._render_with_bundle,
            ("GET", _BUNDLE): self._bundle,
            ("PUT", "/v1/bundles"): self._store_copies,
            ("POST", "/v1/bundles"): self._store_bundle,
            ("POST", "/v1/hint"): self._receive_hint,
            ("POST", "/v1/wishes"): self._update_followed,
            ("POST", "/v1/live"): self._set_live_digests,
            ("GET", "/v1/states"): self._states,
            ("GET", "/v1/members"): self._members,
            ("GET", "/v1/signing"): self._signing_identity,
            ("POST", "/v1/orders"): self._sign_orders,
            ("POST", "/v1/attestation"): self._renew,
        }
        cache.on_state(self._publish_state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request of the internal listener, as an ASGI application.

        Uses no router and no middleware, because a busy replica serves thousands of requests.
        """
        path = scope["path"]
        name = _BUNDLE if path.startswith(_BUNDLE) else path
        endpoint = self._endpoints.get((scope["method"], name), _not_found)
        await (await _respond(endpoint, Request(scope, receive)))(scope, receive, send)

    def close(self) -> None:
        """Ends all streams of states."""
        for stream in tuple(self._streams):
            stream.end()

    async def _trees(self, request: Request) -> Response:
        query = messages.TREE_IDS_REQUEST.decode(await _read_body(request))
        tree_ids = await self._cache.trees(
            query.repository_id, query.commit, query.folders, local_only=_is_hop(request)
        )
        return _json(messages.TREES.encode(dict(tree_ids)))

    async def _folders(self, request: Request) -> Response:
        query = messages.SUBFOLDERS_REQUEST.decode(await _read_body(request))
        folders = await self._cache.folders(
            query.repository_id, query.commit, query.base, query.depth, local_only=_is_hop(request)
        )
        return _json(messages.PATHS.encode(folders))

    async def _files(self, request: Request) -> Response:
        query = messages.FILES_REQUEST.decode(await _read_body(request))
        files = await self._cache.files(
            query.repository_id,
            query.commit,
            query.folder,
            query.endings,
            local_only=_is_hop(request),
        )
        return _json(messages.FILES.encode(dict(files)))

    async def _resolve(self, request: Request) -> Response:
        query = messages.RESOLVE_REQUEST.decode(await _read_body(request))
        commit = await self._cache.resolve(
            query.repository_id, query.name, local_only=_is_hop(request)
        )
        return _json(messages.COMMIT.encode(commit))

    async def _render(self, request: Request) -> Response:
        render_request = messages.REQUEST.decode(await _read_body(request))
        rendered = await self._cache.render(render_request, local_only=_is_hop(request))
        return _json(messages.RENDERED.encode(rendered))

    async def _render_with_bundle(self, request: Request) -> Response:
        """Returns a render, with its bundle if that is small: the caller needs it next."""
        render_request = messages.REQUEST.decode(await _read_body(request))
        rendered = await self._cache.render(render_request, local_only=True)
        parts = [messages.RENDERED.encode(rendered)]
        if rendered.size <= _MAX_INLINE_BUNDLE and (
            data := await self._nearest.get(rendered.digest)
        ):
            parts.append(data)
        return Response(messages.join_contents(parts), media_type="application/octet-stream")

    async def _bundle(self, request: Request) -> Response:
        digest = request.scope["path"].removeprefix(_BUNDLE)
        if _is_hop(request):
            data = await self._nearest.get(digest)
        else:
            data = await self._cache.bundle(digest)
        if data is None:
            raise NotFound(f"no bundle {digest[:80]!r} here")
        return Response(data, media_type="application/octet-stream")

    async def _store_copies(self, request: Request) -> Response:
        contents = messages.split_contents(await _read_body(request, MAX_COPIES))
        await asyncio.gather(
            *(self._nearest.put(digest_of(content), content) for content in contents)
        )
        return Response(status_code=204)

    async def _store_bundle(self, request: Request) -> Response:
        rendered = await self._cache.store_bundle(await _read_body(request, MAX_BUNDLE))
        return _json(messages.RENDERED.encode(rendered))

    async def _receive_hint(self, request: Request) -> Response:
        hint = messages.HINT.decode(await _read_body(request))
        await self._cache.request_poll(hint.repository_id, hint.announced)
        return Response(status_code=202)

    async def _update_followed(self, request: Request) -> Response:
        update = messages.FOLLOW_UPDATE.decode(await _read_body(request))
        for spec in update.follow:
            self._cache.follow(spec)
        for repository_id in update.forget:
            self._cache.forget(repository_id)
        return Response(status_code=204)

    async def _set_live_digests(self, request: Request) -> Response:
        self._on_live_digests(messages.DIGESTS.decode(await _read_body(request)))
        return Response(status_code=204)

    async def _states(self, request: Request) -> Response:
        stream = _StateStream(self._cache.states())
        self._streams.add(stream)

        async def lines() -> AsyncIterator[bytes]:
            try:
                async for line in stream.lines():
                    yield line
            finally:
                self._streams.discard(stream)

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _signing_identity(self, request: Request) -> Response:
        identity = await self._cache.signing_identity()
        return _json(messages.SIGNING_IDENTITIES.encode([identity] if identity else []))

    async def _sign_orders(self, request: Request) -> Response:
        orders = messages.ORDER_REQUESTS.decode(await _read_body(request))
        return _json(messages.ATTESTATIONS.encode(await self._cache.sign_orders(orders)))

    async def _renew(self, request: Request) -> Response:
        (attestation,) = messages.ATTESTATIONS.decode(await _read_body(request))
        return _json(messages.ATTESTATIONS.encode([await self._cache.renew(attestation)]))

    async def _members(self, request: Request) -> Response:
        me, members = self._cache.replica_members()
        addresses = messages.ReplicaAddresses(
            me.address, tuple(member.address for member in members)
        )
        return _json(messages.REPLICA_ADDRESSES.encode(addresses))

    def _publish_state(self, state: RepositoryState) -> None:
        for stream in self._streams:
            stream.add(state)


class _StateStream:
    """The unsent states of one listener: the newest of each repository."""

    def __init__(self, states: Collection[RepositoryState]) -> None:
        self._unsent = {state.repository_id: state for state in states}
        self._wake = asyncio.Event()
        self._ended = False

    def add(self, state: RepositoryState) -> None:
        self._unsent[state.repository_id] = state
        self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields states as lines; an empty line as keep-alive."""
        while not self._ended:
            unsent, self._unsent = self._unsent, {}
            self._wake.clear()
            yield (
                b"".join(messages.STATE.encode(state) + b"\n" for state in unsent.values()) or b"\n"
            )
            try:
                async with asyncio.timeout(IDLE_SECONDS / 3):
                    await self._wake.wait()
            except TimeoutError:
                continue


async def _respond(endpoint: Endpoint, request: Request) -> Response:
    """Runs an endpoint and converts its errors to responses."""
    try:
        return await endpoint(request)
    except PeerUnavailable as error:
        return _error_response(error, MISDIRECTED)
    except TowlineError as error:
        return _error_response(error, _STATUS.get(error.code, 500))
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception:
        log.exception("internal request failed", path=request.url.path)
        return _error_response(TowlineError("internal error; see the replica's log"), 500)


async def _not_found(request: Request) -> Response:
    return Response(status_code=404)


def _error_response(error: TowlineError, status: int) -> Response:
    problem = {"code": error.code, "message": error.message, "retry_after": error.retry_after}
    return Response(orjson.dumps(problem), status, media_type="application/json")


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")


def _is_hop(request: Request) -> bool:
    return HOP_HEADER in request.headers


async def _read_body(request: Request, max_bytes: int = messages.MAX_MESSAGE) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise LimitExceeded(f"more than {max_bytes:,} bytes")
    return bytes(body)
