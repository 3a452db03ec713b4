"""Requests that this process sends on behalf of a user through the Kubernetes proxy.
The proxy authorizes, limits, forwards and audits them like any other request.
"""

import asyncio
import io
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any

from core.errors import LimitExceeded, Unavailable
from core.mux.codec import Buffer, Open
from proxy.domain.access import AuthenticatedUser
from proxy.domain.limits import HeadLimits
from proxy.gateway.forward.proxied_request import ProxiedRequest
from proxy.gateway.handler import RequestHandler
from proxy.gateway.parse.head import parse_head
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.route import ClusterRoute

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class InternalCall:
    """A request without its identity. `media_type` is that of `body`."""

    route: ClusterRoute
    method: str = "GET"
    media_type: str = ""
    body: bytes = b""

    @property
    def head(self) -> bytes:
        """Returns the head of the request."""
        type_line = f"Content-Type: {self.media_type}\r\n" if self.media_type else ""
        length_line = f"Content-Length: {len(self.body)}\r\n" if self.body else ""
        return (
            b"%s /k8s/clusters/%s%s HTTP/1.1\r\nHost: towline\r\n"
            b"Accept: application/json\r\nUser-Agent: towline\r\n%s\r\n"
        ) % (
            self.method.encode(),
            self.route.handle.encode(),
            self.route.target,
            (type_line + length_line).encode(),
        )


class InternalClient:
    """Sends requests to clusters as users that are already authenticated.
    `proxied_requests`: the open requests, which can be listed, revoked and ended like those of
    connections.
    """

    def __init__(self, handler: RequestHandler, limits: HeadLimits) -> None:
        self._handler, self._limits = handler, limits
        self.proxied_requests: set[ProxiedRequest] = set()

    async def send(
        self, identity: AuthenticatedUser, source: str, call: InternalCall, max_bytes: int
    ) -> tuple[int, bytes]:
        """Sends a request and returns status and body. LimitExceeded: the body exceeds
        `max_bytes`. Unavailable: the cluster did not respond.
        """
        response = _ResponseBuffer(max_bytes)
        parsed = ParsedRequest.of(parse_head(call.head, self._limits), call.route)
        request = self._handler.new_request(response, parsed, source, identity)
        self.proxied_requests.add(request)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._handler.run(request, parsed)
                if call.body and request.ready:
                    request.receive(call.body)
                await response.ended.wait()
        except TimeoutError:
            raise Unavailable(f'cluster "{call.route.handle}" did not answer in time') from None
        finally:
            request.on_user_lost()
            self.proxied_requests.discard(request)
        return response.parsed()


class _ResponseBuffer:
    """The client of an internal request: collects the response in memory."""

    write_paused = False
    draining = False

    def __init__(self, max_bytes: int) -> None:
        self.ended = asyncio.Event()
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._aborted = False

    def write(self, data: Buffer) -> None:
        if len(self._data) <= self._max_bytes:
            self._data += data
        if len(self._data) > self._max_bytes:
            self.ended.set()

    def abort(self) -> None:
        self._aborted = True
        self.ended.set()

    def pause_reading(self) -> None:
        """Does nothing: the stream queues the whole body."""

    def resume_reading(self) -> None:
        """Does nothing: the stream queues the whole body."""

    def hand_over(self, request: ProxiedRequest, message: Open) -> bool:
        """Returns False: no native code reads the buffer."""
        return False

    def on_forwarded(self) -> None:
        """Does nothing: the body follows when the request is forwarded."""

    def on_detached(self) -> None:
        """Does nothing: no request is handed over."""

    def on_response_end(self, *, keep_alive: bool) -> None:
        self.ended.set()

    def parsed(self) -> tuple[int, bytes]:
        """Parses status and body. LimitExceeded: too long. Unavailable: interrupted, or not
        HTTP.
        """
        if len(self._data) > self._max_bytes:
            raise LimitExceeded(f"the cluster's response exceeds {self._max_bytes:,} bytes")
        if self._aborted:
            raise Unavailable("the cluster interrupted its response")
        source: Any = _Socket(bytes(self._data))
        response = HTTPResponse(source)
        try:
            response.begin()
            return response.status, response.read()
        except (HTTPException, OSError, ValueError):
            raise Unavailable("the cluster's response is not valid HTTP") from None


class _Socket:
    """The part of a socket that `HTTPResponse` uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *args: object, **kwargs: object) -> io.BytesIO:
        return io.BytesIO(self._data)
