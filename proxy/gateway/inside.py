"""Reads that this process itself makes for a user: through the door, with all its decisions.

They are authorized, limited, carried and written into the audit trail like any other request.
"""

import asyncio
import io
import secrets
from http.client import HTTPException, HTTPResponse
from typing import Any

from fleet.errors import LimitExceeded, Unavailable
from fleet.mux.codec import Buffer
from fleet.runtime.clock import Clock
from proxy.domain.access import Identity
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import HeadLimits
from proxy.gateway.desk import Desk
from proxy.gateway.exchange import Exchange
from proxy.gateway.head import parse_head
from proxy.gateway.opening import Opening
from proxy.gateway.route import Route

_SECONDS = 10.0


class InsideReader:
    """Reads from clusters as users whose identity is known already.

    `exchanges`: those under way, to be listed, revoked and ended like those of connections.
    """

    def __init__(self, desk: Desk, clock: Clock, limits: HeadLimits) -> None:
        self._desk = desk
        self._clock = clock
        self._limits = limits
        self.exchanges: set[Exchange] = set()

    async def read(
        self, identity: Identity, source: str, route: Route, most: int
    ) -> tuple[int, bytes]:
        """Status and body of a GET. LimitExceeded: more than `most` bytes. Unavailable."""
        answer = _Answer(most)
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
        exchange = Exchange(answer, self._desk, self._clock, Opening.of(head, route), record)
        self.exchanges.add(exchange)
        try:
            async with asyncio.timeout(_SECONDS):
                await exchange.run()
                await answer.ended.wait()
        except TimeoutError:
            raise Unavailable(f'cluster "{route.handle}" did not answer in time') from None
        finally:
            exchange.user_gone()
            self.exchanges.discard(exchange)
        return answer.parsed()


class _Answer:
    """The side of the user: takes the answer into memory."""

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
        """There is no body to be held."""

    def release(self) -> None:
        """There is no body to read on."""

    def on_ready(self) -> None:
        """There is no body to be sent."""

    def on_answered(self, *, keep_alive: bool) -> None:
        self.ended.set()

    def parsed(self) -> tuple[int, bytes]:
        """Status and body. LimitExceeded: too long. Unavailable: broken off, or no HTTP."""
        if len(self._data) > self._most:
            raise LimitExceeded(f"the cluster's answer has more than {self._most:,} bytes")
        if self._broken:
            raise Unavailable("the cluster broke its answer off")
        source: Any = _Socket(bytes(self._data))
        response = HTTPResponse(source)
        try:
            response.begin()
            return response.status, response.read()
        except (HTTPException, OSError, ValueError):
            raise Unavailable("the cluster's answer cannot be read") from None


class _Socket:
    """What `HTTPResponse` asks of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *args: Any, **kwargs: Any) -> io.BytesIO:
        return io.BytesIO(self._data)
