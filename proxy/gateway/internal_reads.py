"""Reads that this process sends on behalf of a user through the Kubernetes proxy.
The proxy authorizes, limits, forwards and audits them like any other request.
"""

import asyncio
import io
import secrets
from http.client import HTTPException, HTTPResponse
from typing import Any

from core.errors import LimitExceeded, Unavailable
from core.mux.codec import Buffer
from core.runtime.clock import Clock
from proxy.domain.access import AuthenticatedUser
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import HeadLimits
from proxy.gateway.authorization import RequestAuthorizer
from proxy.gateway.head import parse_head
from proxy.gateway.parsed_request import ParsedRequest
from proxy.gateway.proxied_request import ProxiedRequest
from proxy.gateway.route import ClusterRoute

_SECONDS = 10.0


class InternalReader:
    """Reads from clusters as users that are already authenticated.
    `proxied_requests`: the open reads, which can be listed, revoked and ended like those of
    connections.
    """

    def __init__(self, authorization: RequestAuthorizer, clock: Clock, limits: HeadLimits) -> None:
        self._authorization = authorization
        self._clock = clock
        self._limits = limits
        self.proxied_requests: set[ProxiedRequest] = set()

    async def read(
        self, identity: AuthenticatedUser, source: str, route: ClusterRoute, most: int
    ) -> tuple[int, bytes]:
        """Sends a GET and returns status and body. LimitExceeded: the body exceeds `most` bytes.
        Unavailable: the cluster did not respond.
        """
        answer = _ResponseBuffer(most)
        head = parse_head(
            b"GET /k8s/clusters/%s%s HTTP/1.1\r\nHost: towline\r\n"
            b"Accept: application/json\r\nUser-Agent: towline\r\n\r\n"
            % (route.handle.encode(), route.target),
            self._limits,
        )
        record = RequestRecord(
            id=secrets.token_hex(16),
            at=self._clock.now(),
            source=source,
            user_agent="towline",
            handle=route.handle,
            method="GET",
            upgrade=False,
            identity=identity,
        )
        proxied_request = ProxiedRequest(
            answer, self._authorization, self._clock, ParsedRequest.of(head, route), record
        )
        self.proxied_requests.add(proxied_request)
        try:
            async with asyncio.timeout(_SECONDS):
                await proxied_request.run()
                await answer.ended.wait()
        except TimeoutError:
            raise Unavailable(f'cluster "{route.handle}" did not answer in time') from None
        finally:
            proxied_request.on_user_lost()
            self.proxied_requests.discard(proxied_request)
        return answer.parsed()


class _ResponseBuffer:
    """The user's side of such a read: collects the response in memory."""

    write_paused = False
    draining = False

    def __init__(self, most: int) -> None:
        self.ended = asyncio.Event()
        self._most = most
        self._data = bytearray()
        self._broken = False

    def write(self, data: Buffer) -> None:
        if len(self._data) <= self._most:
            self._data += data
        if len(self._data) > self._most:
            self.ended.set()

    def abort(self) -> None:
        self._broken = True
        self.ended.set()

    def hold(self) -> None:
        """Does nothing: a GET has no body."""

    def release(self) -> None:
        """Does nothing: a GET has no body."""

    def on_ready(self) -> None:
        """Does nothing: a GET has no body."""

    def on_answered(self, *, keep_alive: bool) -> None:
        self.ended.set()

    def parsed(self) -> tuple[int, bytes]:
        """Parses status and body. LimitExceeded: too long. Unavailable: interrupted, or not
        HTTP.
        """
        if len(self._data) > self._most:
            raise LimitExceeded(f"the cluster's response exceeds {self._most:,} bytes")
        if self._broken:
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

    def makefile(self, *args: Any, **kwargs: Any) -> io.BytesIO:
        return io.BytesIO(self._data)
