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
_SMALL = 256 << 10

Endpoint = Callable[[Request], Awaitable[Response]]


class ServedGitCache(Protocol):
    """The git cache, as the API uses it."""

    def follow(self, spec: RepositorySpec) -> None: ...

    def forget(self, repository_id: RepositoryId) -> None: ...

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None: ...

    def states(self) -> Collection[RepositoryState]: ...

    def company(self) -> tuple[ReplicaMember, Sequence[ReplicaMember]]: ...

    async def hint(
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

    async def keep(self, data: bytes) -> RenderedBundle: ...

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

    `keep_live` gets the digests that a control plane still needs.
    """

    def __init__(
        self,
        cache: ServedGitCache,
        nearest: ContentStore,
        keep_live: Callable[[Collection[str]], None],
    ) -> None:
        self._cache = cache
        self._nearest = nearest
        self._keep_live = keep_live
        self._streams: set[_Stream] = set()
        self._verbs: Mapping[tuple[str, str], Endpoint] = {
            ("POST", "/v1/trees"): self._trees,
            ("POST", "/v1/folders"): self._folders,
            ("POST", "/v1/files"): self._files,
            ("POST", "/v1/resolve"): self._resolve,
            ("POST", "/v1/render"): self._render,
            ("POST", "/v1/artefact"): self._artefact,
            ("GET", _BUNDLE): self._bundle,
            ("PUT", "/v1/bundles"): self._keep,
            ("POST", "/v1/bundles"): self._keep_made,
            ("POST", "/v1/hint"): self._hint,
            ("POST", "/v1/wishes"): self._wishes,
            ("POST", "/v1/live"): self._live,
            ("GET", "/v1/states"): self._states,
            ("GET", "/v1/members"): self._members,
            ("GET", "/v1/signing"): self._signing,
            ("POST", "/v1/orders"): self._orders,
            ("POST", "/v1/attestation"): self._renew,
        }
        cache.on_state(self._tell)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application of the internal listener.

        Uses no router and no middleware, because a busy replica serves thousands of requests.
        """
        path = scope["path"]
        name = _BUNDLE if path.startswith(_BUNDLE) else path
        verb = self._verbs.get((scope["method"], name), _unknown)
        await (await _answer(verb, Request(scope, receive)))(scope, receive, send)

    def close(self) -> None:
        """Ends all streams of states."""
        for stream in tuple(self._streams):
            stream.end()

    async def _trees(self, request: Request) -> Response:
        asked = messages.TREE_IDS_REQUEST.decode(await _body(request))
        found = await self._cache.trees(
            asked.repository_id, asked.commit, asked.folders, local_only=_is_hop(request)
        )
        return _json(messages.TREES.encode(dict(found)))

    async def _folders(self, request: Request) -> Response:
        asked = messages.SUBFOLDERS_REQUEST.decode(await _body(request))
        found = await self._cache.folders(
            asked.repository_id, asked.commit, asked.base, asked.depth, local_only=_is_hop(request)
        )
        return _json(messages.PATHS.encode(found))

    async def _files(self, request: Request) -> Response:
        asked = messages.FILES_REQUEST.decode(await _body(request))
        found = await self._cache.files(
            asked.repository_id,
            asked.commit,
            asked.folder,
            asked.endings,
            local_only=_is_hop(request),
        )
        return _json(messages.FILES.encode(dict(found)))

    async def _resolve(self, request: Request) -> Response:
        asked = messages.RESOLVE_REQUEST.decode(await _body(request))
        found = await self._cache.resolve(
            asked.repository_id, asked.name, local_only=_is_hop(request)
        )
        return _json(messages.COMMIT.encode(found))

    async def _render(self, request: Request) -> Response:
        asked = messages.REQUEST.decode(await _body(request))
        rendered = await self._cache.render(asked, local_only=_is_hop(request))
        return _json(messages.RENDERED.encode(rendered))

    async def _artefact(self, request: Request) -> Response:
        """Returns a render, with its bundle if that is small: the caller needs it next."""
        asked = messages.REQUEST.decode(await _body(request))
        rendered = await self._cache.render(asked, local_only=True)
        parts = [messages.RENDERED.encode(rendered)]
        if rendered.size <= _SMALL and (data := await self._nearest.get(rendered.digest)):
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

    async def _keep(self, request: Request) -> Response:
        contents = messages.split_contents(await _body(request, MAX_COPIES))
        await asyncio.gather(
            *(self._nearest.put(digest_of(content), content) for content in contents)
        )
        return Response(status_code=204)

    async def _keep_made(self, request: Request) -> Response:
        rendered = await self._cache.keep(await _body(request, MAX_BUNDLE))
        return _json(messages.RENDERED.encode(rendered))

    async def _hint(self, request: Request) -> Response:
        hint = messages.HINT.decode(await _body(request))
        await self._cache.hint(hint.repository_id, hint.announced)
        return Response(status_code=202)

    async def _wishes(self, request: Request) -> Response:
        wishes = messages.FOLLOW_UPDATE.decode(await _body(request))
        for spec in wishes.follow:
            self._cache.follow(spec)
        for repository_id in wishes.forget:
            self._cache.forget(repository_id)
        return Response(status_code=204)

    async def _live(self, request: Request) -> Response:
        self._keep_live(messages.DIGESTS.decode(await _body(request)))
        return Response(status_code=204)

    async def _states(self, request: Request) -> Response:
        stream = _Stream(self._cache.states())
        self._streams.add(stream)

        async def lines() -> AsyncIterator[bytes]:
            try:
                async for line in stream.lines():
                    yield line
            finally:
                self._streams.discard(stream)

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _signing(self, request: Request) -> Response:
        identity = await self._cache.signing_identity()
        return _json(messages.SIGNING_IDENTITIES.encode([identity] if identity else []))

    async def _orders(self, request: Request) -> Response:
        asked = messages.ORDER_REQUESTS.decode(await _body(request))
        return _json(messages.ATTESTATIONS.encode(await self._cache.sign_orders(asked)))

    async def _renew(self, request: Request) -> Response:
        (given,) = messages.ATTESTATIONS.decode(await _body(request))
        return _json(messages.ATTESTATIONS.encode([await self._cache.renew(given)]))

    async def _members(self, request: Request) -> Response:
        me, members = self._cache.company()
        addresses = messages.ReplicaAddresses(
            me.address, tuple(member.address for member in members)
        )
        return _json(messages.REPLICA_ADDRESSES.encode(addresses))

    def _tell(self, state: RepositoryState) -> None:
        for stream in self._streams:
            stream.add(state)


class _Stream:
    """The unsent states of one listener: the newest of each repository."""

    def __init__(self, states: Collection[RepositoryState]) -> None:
        self._waiting = {state.repository_id: state for state in states}
        self._wake = asyncio.Event()
        self._ended = False

    def add(self, state: RepositoryState) -> None:
        self._waiting[state.repository_id] = state
        self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields states as lines; an empty line as keep-alive."""
        while not self._ended:
            waiting, self._waiting = self._waiting, {}
            self._wake.clear()
            yield (
                b"".join(messages.STATE.encode(state) + b"\n" for state in waiting.values())
                or b"\n"
            )
            try:
                async with asyncio.timeout(IDLE_SECONDS / 3):
                    await self._wake.wait()
            except TimeoutError:
                continue


async def _answer(verb: Endpoint, request: Request) -> Response:
    """Runs an endpoint and converts its errors to responses."""
    try:
        return await verb(request)
    except PeerUnavailable as error:
        return _problem(error, MISDIRECTED)
    except TowlineError as error:
        return _problem(error, _STATUS.get(error.code, 500))
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception:
        log.exception("internal request failed", path=request.url.path)
        return _problem(TowlineError("internal error; see the replica's log"), 500)


async def _unknown(request: Request) -> Response:
    return Response(status_code=404)


def _problem(error: TowlineError, status: int) -> Response:
    problem = {"code": error.code, "message": error.message, "retry_after": error.retry_after}
    return Response(orjson.dumps(problem), status, media_type="application/json")


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")


def _is_hop(request: Request) -> bool:
    return HOP_HEADER in request.headers


async def _body(request: Request, most: int = messages.MAX_MESSAGE) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise LimitExceeded(f"more than {most:,} bytes")
    return bytes(body)
