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
)

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from core.errors import Code, LimitExceeded, NotFound, TowlineError
from core.spec.bundle import Attestation, digest_of
from core.spec.source import RepositoryState
from gitcache.domain import messages
from gitcache.domain.messages import Operation, Query, Result
from gitcache.peers.client import HOP_HEADER, IDLE_SECONDS, MAX_BUNDLE, MAX_COPIES, MISDIRECTED
from gitcache.ports import ContentStore, PeerUnavailable
from gitcache.sync.cache import GitCache

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
_Answer = Callable[[bytes, bool], Awaitable[bytes]]
"""From the body of a request, and whether a replica sent it, to the body of the response."""


class PeerApi:
    """Serves replicas and control planes. `nearest` is the local content store.

    `on_live_digests` gets the digests that a control plane still needs.
    """

    def __init__(
        self,
        cache: GitCache,
        nearest: ContentStore,
        on_live_digests: Callable[[Collection[str]], None],
    ) -> None:
        self._cache = cache
        self._nearest = nearest
        self._on_live_digests = on_live_digests
        self._streams: set[_StateStream] = set()
        self._answers: dict[str, _Answer] = {}
        self._serve_operations(cache)
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {
            ("POST", "/v1/artefact"): self._render_with_bundle,
            ("GET", _BUNDLE): self._bundle,
            ("PUT", "/v1/bundles"): self._store_copies,
            ("POST", "/v1/bundles"): self._store_bundle,
            ("GET", "/v1/states"): self._states,
            ("GET", "/v1/members"): self._members,
            ("GET", "/v1/signing"): self._signing_identity,
        }
        cache.on_state(self._publish_state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request of the internal listener, as an ASGI application.

        Uses no router and no middleware, because a busy replica serves thousands of requests.
        """
        path = scope["path"]
        name = _BUNDLE if path.startswith(_BUNDLE) else path
        endpoint = self._endpoints.get((scope["method"], name), self._run_operation)
        await (await _respond(endpoint, Request(scope, receive)))(scope, receive, send)

    def close(self) -> None:
        """Ends all streams of states."""
        for stream in tuple(self._streams):
            stream.end()

    async def answer(self, path: str, body: bytes, *, is_hop: bool) -> bytes:
        """Runs the operation at a path. Raises its errors.

        `is_hop` marks requests of replicas, which are not forwarded.
        """
        return await self._answers[path](body, is_hop)

    def _serve_operations(self, cache: GitCache) -> None:
        self._serve(
            messages.TREES,
            lambda query, is_hop: cache.trees(
                query.repository_id, query.commit, query.folders, local_only=is_hop
            ),
        )
        self._serve(
            messages.FOLDERS,
            lambda query, is_hop: cache.folders(
                query.repository_id, query.commit, query.base, query.depth, local_only=is_hop
            ),
        )
        self._serve(
            messages.FILES,
            lambda query, is_hop: cache.files(
                query.repository_id, query.commit, query.folder, query.endings, local_only=is_hop
            ),
        )
        self._serve(
            messages.RESOLVE,
            lambda query, is_hop: cache.resolve(query.repository_id, query.name, local_only=is_hop),
        )
        self._serve(messages.RENDER, lambda query, is_hop: cache.render(query, local_only=is_hop))
        self._serve(
            messages.HINT, lambda hint, _: cache.request_poll(hint.repository_id, hint.announced)
        )
        self._serve(messages.SIGN_ORDERS, lambda requests, _: cache.sign_orders(requests))
        self._serve(messages.RENEW, self._renew)
        self._serve(messages.FOLLOW, self._update_followed)
        self._serve(messages.LIVE_DIGESTS, self._set_live_digests)

    def _serve(
        self,
        operation: Operation[Query, Result],
        run: Callable[[Query, bool], Awaitable[Result]],
    ) -> None:
        async def answer(body: bytes, is_hop: bool) -> bytes:
            return operation.result.encode(await run(operation.query.decode(body), is_hop))

        self._answers[operation.path] = answer

    async def _run_operation(self, request: Request) -> Response:
        path = request.scope["path"]
        if request.method != "POST" or path not in self._answers:
            return Response(status_code=404)
        body = await _read_body(request)
        return _json(await self.answer(path, body, is_hop=_is_hop(request)))

    async def _render_with_bundle(self, request: Request) -> Response:
        """Returns a render, with its bundle if that is small: the caller needs it next."""
        render_request = messages.RENDER.query.decode(await _read_body(request))
        rendered = await self._cache.render(render_request, local_only=True)
        parts = [messages.RENDER.result.encode(rendered)]
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
        return _json(messages.RENDER.result.encode(rendered))

    async def _update_followed(self, update: messages.FollowUpdate, _is_hop: bool) -> None:
        for spec in update.follow:
            self._cache.follow(spec)
        for repository_id in update.forget:
            self._cache.forget(repository_id)

    async def _set_live_digests(self, digests: list[str], _is_hop: bool) -> None:
        self._on_live_digests(digests)

    async def _renew(self, attestations: list[Attestation], _is_hop: bool) -> list[Attestation]:
        return [await self._cache.renew(attestation) for attestation in attestations]

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
        return _json(messages.SIGNING_IDENTITIES.encode([identity]))

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
