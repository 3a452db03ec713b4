"""The webhook endpoint: `POST /webhooks/git/{provider}/{id}`.

Checks the size before reading and the signature before parsing, then answers 202 and handles the
hint in the background. A wrong signature, an unknown repository and a repository without a secret
all get 401. A flood of forged webhooks costs one memory lookup each; lookups of unknown ids in
the store are limited to a few at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol
from urllib.parse import parse_qs

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from core.errors import TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.runtime.token_bucket import RatePolicy, TokenBucket
from core.runtime.ttl_cache import TTLCache
from gitcache.domain.announcements import MAX_REFS, PROVIDERS, announced_refs, read_pusher
from gitcache.domain.signatures import is_genuine

log = structlog.get_logger(__name__)

MAX_BODY = 5 << 20
"""Maximum bytes of a body; pushes with thousands of commits have a few MB."""

MAX_UNVERIFIED_BYTES = 64 << 20
"""Maximum bytes of all unverified requests together."""

BODY_SECONDS = 10.0
"""Maximum time to receive a body, so that slow senders do not block others."""

SECRET_SECONDS = 5.0
"""Cache time of secrets and of missing ones; a new secret may be unknown for this time."""

_REQUEST_BYTES = 4096
_MAX_CACHED_SECRETS = 4096
_LOOKUPS_AT_ONCE = 4
_LOG_SECONDS = 10.0
_REFUSALS = RatePolicy(rate=50.0, burst=50, max_debt=250)
"""Refusals per second; with the maximum debt, a refusal waits 5 s."""

_MAX_DELAYED_REFUSALS = 4096
"""Maximum delayed refusals, each of which holds a connection; further ones go out at once."""

_RETRIES = (0.5, 2.0, 8.0)
_ALIASES = {"forgejo": "gitea", "gogs": "gitea"}
_FORM = b"payload="

SecretOf = Callable[[str], Awaitable[str | None]]
RecordPush = Callable[[str, str, str, Collection[str]], Awaitable[None]]
"""Records the repository's id, the account's name and e-mail address, and the pushed commits."""


class HintReceiver(Protocol):
    """The git cache, as webhooks use it."""

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """Polls a repository at once."""
        ...


class Webhooks:
    """Receives webhooks; `secret_of` returns the secret of a repository id, or None."""

    def __init__(
        self,
        cache: HintReceiver,
        secret_of: SecretOf,
        clock: Clock,
        *,
        record_push: RecordPush | None = None,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._cache = cache
        self._record_push = record_push
        self._body_seconds = body_seconds
        self._secrets = _SecretCache(secret_of, clock)
        self._refusals = _Refusals(clock)
        self._clock = clock
        self._unverified_bytes = 0
        self._hints: dict[str, dict[str, str]] = {}
        self.tasks = Tasks("webhooks")
        self.route = Route("/webhooks/git/{provider}/{id}", self._receive, methods=["POST"])

    async def _receive(self, request: Request) -> Response:
        name, repository_id = request.path_params["provider"], request.path_params["id"]
        provider = _ALIASES.get(name, name)
        if provider not in PROVIDERS:
            return Response("unknown provider", 404)
        if not _is_declared_size_allowed(request):
            return Response(f"more than {MAX_BODY} bytes", 413)
        if self._unverified_bytes > MAX_UNVERIFIED_BYTES:
            return Response("too many webhooks at once", 503, {"Retry-After": "1"})
        answer = await self._verdict(provider, repository_id, request)
        if answer is None:
            await self._refusals.wait_for_turn(repository_id, provider)
            return Response("signature refused", 401)
        return answer

    async def _verdict(
        self, provider: str, repository_id: str, request: Request
    ) -> Response | None:
        """Returns the response, None for a forged webhook."""
        body = bytearray()
        self._unverified_bytes += _REQUEST_BYTES
        try:
            async with asyncio.timeout(self._body_seconds):
                is_complete = await self._read_body(request, body)
            if not is_complete:
                return Response(f"more than {MAX_BODY} bytes", 413)
            is_genuine_webhook = await self._accept(provider, repository_id, request, bytes(body))
            return Response(status_code=202) if is_genuine_webhook else None
        except TimeoutError:
            return Response("too slow", 408)
        except Unavailable as error:
            log.warning("push not recorded", repository=repository_id, reason=error.message)
            return Response("the push cannot be recorded now", 503, {"Retry-After": "1"})
        finally:
            self._unverified_bytes -= _REQUEST_BYTES + len(body)

    async def _read_body(self, request: Request, body: bytearray) -> bool:
        """Reads the body; returns False as soon as it exceeds the limit."""
        try:
            async for chunk in request.stream():
                body += chunk
                self._unverified_bytes += len(chunk)
                if len(body) > MAX_BODY:
                    return False
        except ClientDisconnect:
            return False
        return True

    async def _accept(
        self, provider: str, repository_id: str, request: Request, body: bytes
    ) -> bool:
        """Verifies a webhook and forwards its announcement; returns False for a forged one."""
        secret = await self._secrets.get(repository_id)
        if not is_genuine(provider, secret, request.headers, body):
            return False
        payload = _parse(body)
        refs = announced_refs(provider, payload)
        self._queue_hint(repository_id, refs)
        account = read_pusher(provider, payload)
        if self._record_push is not None and refs and account is not None:
            commits = set(refs.values())
            await self._record_push(repository_id, account.name, account.email, commits)
        return True

    def _queue_hint(self, repository_id: str, refs: Mapping[str, str]) -> None:
        """Forwards a hint in the background, together with later ones for the same repository."""
        queued = self._hints.get(repository_id)
        if queued is not None:
            if len(queued) < MAX_REFS:
                queued.update(refs)
            return
        self._hints[repository_id] = dict(refs)
        self.tasks.spawn(f"hint/{repository_id}", self._forward_hint(repository_id))

    async def _forward_hint(self, repository_id: str) -> None:
        for pause in (*_RETRIES, None):
            refs = self._hints.pop(repository_id, {})
            try:
                return await self._cache.request_poll(RepositoryId(repository_id), refs)
            except TowlineError as error:
                log.warning("hint delayed", repository=repository_id, reason=error.message)
            if pause is not None:
                self._hints[repository_id] = refs | self._hints.get(repository_id, {})
                await self._clock.sleep(pause)
        return None


class _SecretCache:
    """A short-lived cache of webhook secrets, including missing ones."""

    def __init__(self, secret_of: SecretOf, clock: Clock) -> None:
        self._secret_of = secret_of
        self._cached: TTLCache[str, str] = TTLCache(clock, SECRET_SECONDS, _MAX_CACHED_SECRETS)
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

    async def get(self, repository_id: str) -> str:
        """Returns the secret; empty without one."""
        if (cached := self._cached.get(repository_id)) is not None:
            return cached
        async with self._lookups:
            if (cached := self._cached.get(repository_id)) is not None:
                return cached
            secret = await self._secret_of(repository_id) or ""
        self._cached.put(repository_id, secret)
        return secret


class _Refusals:
    """Answers refusals at a limited rate, which slows down senders of forged webhooks.

    Logs the first refusal, then only counts, so that forged webhooks cannot fill the log.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silent_until = float("-inf")
        self._unlogged = 0
        self._bucket = TokenBucket(_REFUSALS, clock.monotonic())
        self._waiting = 0

    async def wait_for_turn(self, repository_id: str, provider: str) -> None:
        """Waits for the turn of a refusal, at most 5 s."""
        self._log(repository_id, provider)
        now = self._clock.monotonic()
        if not self._bucket.take(now) or self._waiting >= _MAX_DELAYED_REFUSALS:
            return
        self._waiting += 1
        try:
            await self._clock.sleep(self._bucket.reserve(now))
        finally:
            self._waiting -= 1

    def _log(self, repository_id: str, provider: str) -> None:
        if self._clock.monotonic() < self._silent_until:
            self._unlogged += 1
            return
        log.info(
            "webhook refused",
            repository=repository_id[:80],
            provider=provider,
            others_before=self._unlogged,
        )
        self._unlogged = 0
        self._silent_until = self._clock.monotonic() + _LOG_SECONDS


def _is_declared_size_allowed(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    return length.isdecimal() and len(length) <= 12 and int(length) <= MAX_BODY


def _parse(body: bytes) -> object:
    """Parses a body of JSON, or of the form that GitHub sends by default."""
    try:
        if body.startswith(_FORM):
            body = parse_qs(body, max_num_fields=2)[b"payload"][0]
        return orjson.loads(body)
    except (ValueError, KeyError):
        return None
