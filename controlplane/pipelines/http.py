"""Webhooks: registries announce new versions, and CI systems answer gates.

`POST /webhooks/registry/{provider}/{trigger}` is only a hint; its content is not used. `POST
/webhooks/gates/{gate}` decides at an EXTERNAL gate. The size is checked before reading, and the
signature before parsing. A wrong signature, an unknown id and a missing secret give the same
response: 401.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.platform.webhook_signatures import signature
from core.errors import Code, TowlineError
from core.runtime.clock import Clock

MAX_BYTES = 1 << 20
_READ_TIMEOUT_S = 10.0
_TOLERANCE_S = 300
_LOOKUPS_AT_ONCE = 4
_MAX_QUEUED = 64
_STATUS = {Code.INVALID: 400, Code.NOT_FOUND: 404, Code.CONFLICT: 409, Code.FORBIDDEN: 403}

PROVIDERS = frozenset(("github", "harbor", "dockerhub", "plain"))
Handler = Callable[[Request], Awaitable[Response]]
SecretOf = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """Answer of a CI system to a gate."""

    release: str
    passed: bool
    reason: str = ""


_ANSWER = TypeAdapter(_Answer)


class WebhookRoutes:
    """Handles webhooks; `routes` are for the application."""

    def __init__(self, triggers: Triggers, decisions: ReleaseDecisions, clock: Clock) -> None:
        self._triggers = triggers
        self._decisions = decisions
        self._clock = clock
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self._waiting = 0
        self.routes = (
            Route(
                "/webhooks/registry/{provider}/{id}",
                _with_errors(self._handle_registry),
                methods=["POST"],
            ),
            Route("/webhooks/gates/{id}", _with_errors(self._handle_gate_answer), methods=["POST"]),
        )

    async def _handle_registry(self, request: Request) -> Response:
        provider, id = request.path_params["provider"], request.path_params["id"]
        if provider not in PROVIDERS:
            raise HTTPException(404, "unknown provider")
        body = await self._read_body(request)
        secret = await self._look_up_secret(self._triggers.webhook_secret, id)
        if not _is_genuine(provider, secret, request.headers, request.query_params, body):
            raise HTTPException(401, "signature refused")
        await self._triggers.schedule_poll_soon(id)
        return Response(status_code=202)

    async def _handle_gate_answer(self, request: Request) -> Response:
        id = request.path_params["id"]
        body = await self._read_body(request)
        secret = await self._look_up_secret(self._decisions.gate_secret, id)
        if not self._is_signed(secret, request.headers, body):
            raise HTTPException(401, "signature refused")
        try:
            answer = _ANSWER.validate_json(body, strict=True)
        except ValidationError:
            example = '{"release": "r7-…", "passed": true, "reason": "…"}'
            raise HTTPException(400, f"the body must be like {example}") from None
        call = request.headers["webhook-id"]
        await self._decisions.answer_signed(id, answer.release, answer.passed, answer.reason, call)
        return Response(status_code=204)

    async def _read_body(self, request: Request) -> bytes:
        """Reads the whole body. Raises HTTPException if it is too large or too slow."""
        if self._waiting >= _MAX_QUEUED:
            busy = "too many requests at the same time"
            raise HTTPException(503, busy, {"Retry-After": "1"})
        body = bytearray()
        self._waiting += 1
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise HTTPException(413, f"the body exceeds {MAX_BYTES} bytes")
        except TimeoutError:
            raise HTTPException(408, "too slow") from None
        except ClientDisconnect:
            raise HTTPException(400, "incomplete") from None
        finally:
            self._waiting -= 1
        return bytes(body)

    async def _look_up_secret(self, look_up: SecretOf, id: str) -> str:
        async with self._lookups:
            return await look_up(id[:64]) or ""

    def _is_signed(self, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Verifies a Standard Webhooks signature over id, time and body, at most 5 minutes old."""
        timestamp, id = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
        now = self._clock.now()
        if not secret or not timestamp.isdecimal() or len(timestamp) > 12 or not 0 < len(id) <= 256:
            return False
        if abs(int(timestamp) - now.timestamp()) > _TOLERANCE_S:
            return False
        signed_at = now.fromtimestamp(int(timestamp), now.tzinfo)
        expected = signature(secret, id, signed_at, body)["webhook-signature"]
        signatures = headers.get("webhook-signature", "")[:4096].split(" ")
        return any(_equal(signature, expected) for signature in signatures)


def _with_errors(handler: Handler) -> Handler:
    """Tells the sender whether another attempt can succeed."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except TowlineError as error:
            answer = {"error": error.message, "code": error.code.value}
            return JSONResponse(answer, _STATUS.get(error.code, 503))

    return handle


def _is_genuine(
    provider: str, secret: str, headers: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> bool:
    """Returns whether a request carries the proof of the secret; never without a secret.

    GitHub (packages of GHCR) and the plain provider sign the body with HMAC-SHA256. Harbor sends
    the secret as its authorization header. Docker Hub supports neither: the secret is in the URL's
    `token`.
    """
    if not secret:
        return False
    if provider == "harbor":
        return _equal(headers.get("authorization", ""), secret)
    if provider == "dockerhub":
        return _equal(query.get("token", ""), secret)
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _equal(headers.get("x-hub-signature-256", "").removeprefix("sha256="), expected)


def _equal(value: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(value.encode("utf-8", "replace"), expected.encode())
