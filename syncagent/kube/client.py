"""Requests to the API server: limited in number, retried on its request, with its own error
messages.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlencode

import orjson
import structlog

from core.errors import Unavailable
from core.json_object import JsonValue
from core.runtime.clock import Clock
from core.spec.bundle import KubeObject
from syncagent.kube.access import ApiServerAccess
from syncagent.kube.http import HttpBody, HttpClient, HttpRequest
from syncagent.ports import RequestRefused

log = structlog.get_logger(__name__)

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_TRIES = 4
_MALFORMED = "failed to create typed patch object"
_OVERLOADED = {429, 503, 504}
_TIMEOUT_S = 60.0
_PING_S = 4.0
# The server ends a watch within 6 min: one that is silent longer is dead.
_SILENCE_S = 400.0
_MAX_WAIT_S = 30.0
_ALL = "*"


def _permit_write() -> None:
    """Permits every write."""


class KubeClient:
    """One session with the API server.
    It sends at most `concurrency` requests at a time to one API group, and twice as many in total,
    without watches: a slow webhook or aggregated API does not block the others. A 429 or 503 with
    Retry-After pauses all requests for that time. Without it, as from a broken aggregated API, only
    requests to that group are paused. `check_write` raises a TowlineError while nothing may change.
    """

    def __init__(
        self,
        access: ApiServerAccess,
        clock: Clock,
        concurrency: int = 16,
        check_write: Callable[[], None] = _permit_write,
    ) -> None:
        self._access = access
        self._check_write = check_write
        self._writes: set[asyncio.Timeout] = set()
        self._clock = clock
        self._concurrency = concurrency
        self._requests = asyncio.Semaphore(2 * concurrency)
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._resume_at: dict[str, float] = {}
        self._http, self._prefix = HttpClient(access.address), access.prefix

    async def close(self) -> None:
        """Closes all connections, also those of cancelled requests."""
        await self._http.close()

    def interrupt_writes(self) -> None:
        """Ends all open writes at once; each raises the error of `check_write`, or Unavailable."""
        for limit in self._writes:
            limit.reschedule(asyncio.get_running_loop().time())

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonValue = None,
        content_type: str = JSON,
        accept: str = JSON,
        impersonation: Mapping[str, str] = MappingProxyType({}),
    ) -> KubeObject:
        """Sends a request and returns the parsed response. Refused: the server refused it.
        Unavailable: the server cannot be reached.
        """
        headers = {"Accept": accept, "Content-Type": content_type, **impersonation}
        if method == "GET":
            headers["Accept-Encoding"] = "gzip"
        for attempt in range(1, _TRIES + 1):
            status, retry_after, answer = await self._try_request(
                method, path, query, body, headers
            )
            if status < 400:
                return answer
            if attempt == _TRIES or not self._should_retry(status, attempt):
                break
            if status in _OVERLOADED:
                self._delay_group(_group_of(path), retry_after, attempt)
        raise _error_for(status, answer)

    async def text(self, path: str, query: Mapping[str, str], limit: int) -> str:
        """Reads the beginning of a text response. Refused, Unavailable: see `request`."""
        data = b""
        async with self.stream(path, query) as stream:
            async for part in stream:
                data += part
                if len(data) >= limit:
                    break
        return data[:limit].decode(errors="replace")

    async def ping(self) -> None:
        """Checks the API server's health, past all queues. Unavailable: no response, or an
        error.
        """
        request = self._request("GET", "/livez", None, await self._access.headers())
        with self._translated_errors():
            async with asyncio.timeout(_PING_S):
                answer = await self._http.send(request)
        self._note_refusal(answer.status)
        error = _error_for(answer.status, _parse_body(answer.body))
        if isinstance(error, Unavailable):
            raise error
        if error.status >= 500:
            raise Unavailable(f"the API server is not healthy: {error.message}")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str],
        accept: str = JSON,
        impersonation: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncGenerator[HttpBody]:
        """Opens the body of a long response (a watch). Refused, Unavailable: see `request`."""
        await self._wait_for_throttle(_group_of(path))
        headers = {"Accept": accept, **impersonation, **await self._access.headers()}
        request = self._request("GET", path, query, headers)
        with self._translated_errors():
            async with self._http.open(request, _SILENCE_S) as response:
                if response.status >= 400:
                    self._note_refusal(response.status)
                    wait = _seconds_of(response.retry_after)
                    if response.status in _OVERLOADED:
                        self._delay_group(_group_of(path), wait, 1)
                    raise _error_for(response.status, _parse_body(await response.read()))
                yield response

    async def _try_request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        headers: dict[str, str],
    ) -> tuple[int, float | None, dict[str, object]]:
        """Sends a request after its turn within the group, then within all requests."""
        group = _group_of(path)
        async with self._group_slots(group):
            if self._resume_at:
                await self._wait_for_throttle(group)
            async with self._requests:
                if self._resume_at:
                    await self._wait_for_throttle(_ALL)
                return await self._send_and_read(method, path, query, body, headers)

    async def _send_and_read(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object,
        headers: dict[str, str],
    ) -> tuple[int, float | None, dict[str, object]]:
        data = None if body is None else orjson.dumps(body)
        limit = asyncio.timeout(_TIMEOUT_S)
        if method != "GET":
            self._check_write()
            self._writes.add(limit)
        try:
            async with limit:
                signed = headers | await self._access.headers()
                response = await self._http.send(self._request(method, path, query, signed, data))
            self._note_refusal(response.status)
            return response.status, _seconds_of(response.retry_after), _parse_body(response.body)
        except OSError as error:
            if limit.expired() and method != "GET":
                self._check_write()
            raise _connection_error(error) from error
        finally:
            self._writes.discard(limit)

    def _should_retry(self, status: int, attempt: int) -> bool:
        """Reports whether to retry after this status: a token may just have expired."""
        return status in _OVERLOADED or (
            status == 401 and attempt == 1 and self._access.token is not None
        )

    def _group_slots(self, group: str) -> asyncio.Semaphore:
        turn = self._turns.get(group)
        if turn is None:
            turn = self._turns[group] = asyncio.Semaphore(self._concurrency)
        return turn

    async def _wait_for_throttle(self, group: str) -> None:
        while (wait := self._throttled_until(group) - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    def _throttled_until(self, group: str) -> float:
        held = self._resume_at
        return max(held.get(_ALL, 0.0), held.get(group, 0.0)) if held else 0.0

    def _delay_group(self, group: str, retry_after: float | None, attempt: int) -> None:
        group = group if retry_after is None else _ALL
        wait = min(_MAX_WAIT_S, retry_after or 0.5 * 2**attempt) * random.uniform(1.0, 1.5)
        until = self._clock.monotonic() + wait
        self._resume_at[group] = max(self._resume_at.get(group, 0.0), until)
        log.warning("API server throttles requests", group=group, seconds=round(wait, 1))

    def _note_refusal(self, status: int) -> None:
        if status == 401 and self._access.token is not None:
            self._access.token.expire()

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        data: bytes | None = None,
    ) -> HttpRequest:
        """Makes a request for an encoded path."""
        target = f"{self._prefix}{path}"
        if query:
            target = f"{target}?{_encoded_query(tuple(query.items()))}"
        return HttpRequest(method, target, headers, data)

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Translates network errors to `Unavailable`."""
        try:
            yield
        except OSError as error:
            raise _connection_error(error) from error


@lru_cache(256)
def _encoded_query(query: tuple[tuple[str, str], ...]) -> str:
    """Encodes a query; cached because nearly all requests have a few forms."""
    return urlencode(query)


def _connection_error(error: OSError) -> Unavailable:
    if isinstance(error, TimeoutError):
        return Unavailable("cannot reach the API server: request timed out")
    return Unavailable(f"cannot reach the API server: {error}")


def _parse_body(data: bytes) -> KubeObject:
    try:
        answer = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError:
        return {"message": data[:500].decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"message": str(answer)[:500]}


def _group_of(path: str) -> str:
    """Returns the API group of a path: `/api/v1/…`, `/apis/<group>/…`."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > 2 else ""


def _seconds_of(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isdecimal() else None


def _error_for(status: int, answer: KubeObject) -> RequestRefused | Unavailable:
    message = answer.get("message") or f"HTTP status {status}"
    if status in _OVERLOADED or status == 502:
        return Unavailable(f"the API server is overloaded or starting: {message}")
    if status == 401:
        return Unavailable("the API server refuses the agent's own credentials (401)")
    return RequestRefused(message, status=status, reason=_reason_of(status, answer, message))


def _reason_of(status: int, answer: KubeObject, message: str) -> str:
    """Returns the reason of a refusal.

    For an unknown field or a wrong type, the API server answers with 500 and without a reason.
    """
    if reason := answer.get("reason"):
        return reason
    return "Invalid" if message.startswith(_MALFORMED) else f"HTTP{status}"
