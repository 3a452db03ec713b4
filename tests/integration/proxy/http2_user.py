"""A user who speaks HTTP/2 with the library h2, and can break its rules."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from tests.integration.proxy.stack import Stack
from tests.integration.proxy.user import PATH

Fields = Iterable[tuple[str, str]]


@dataclass
class Response:
    """What has arrived on one stream. `code`: why it was reset."""

    early: list[int] = field(default_factory=list)
    status: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    trailers: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    code: int | None = None

    @property
    def over(self) -> bool:
        return self.ended or self.code is not None


def texts(fields: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    """The fields that the library has decoded, as it was told to."""
    return {str(name): str(value) for name, value in fields}


class Http2User:
    """A connection. `reads`: window updates are sent for what arrives. `goaway`: the error code
    with which the proxy ends the connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The library would not send what some tests send.
        rules = h2.config.H2Configuration(
            header_encoding="latin-1",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(rules)
        self.reader, self.writer = reader, writer
        self.reads = True
        self.responses: dict[int, Response] = {}
        self.goaway: int | None = None
        self.closed = False
        self._news = asyncio.Event()
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """Sends what the library has ready."""
        self.writer.write(self.h2.data_to_send())

    async def read(self) -> None:
        """Handles all that arrives, until the connection ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = await self.reader.readexactly(9)
                payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
                for event in self.h2.receive_data(head + payload):
                    self._handle(event)
                self.flush()
                self._news.set()
        self.closed = True
        self._news.set()

    def _handle(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
            # The library takes nothing after it, but open streams go on (RFC 9113 section 6.8).
            self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        response = self.responses.get(getattr(event, "stream_id", None) or 0, Response())
        match event:
            case h2.events.InformationalResponseReceived():
                response.early.append(int(texts(event.headers)[":status"]))
            case h2.events.ResponseReceived():
                response.fields = texts(event.headers)
                response.status = int(response.fields.pop(":status"))
            case h2.events.DataReceived():
                response.content += event.data
                if self.reads:
                    size = event.flow_controlled_length
                    self.h2.acknowledge_received_data(size, event.stream_id)
            case h2.events.TrailersReceived():
                response.trailers = texts(event.headers)
            case h2.events.StreamEnded():
                response.ended = True
            case h2.events.StreamReset():
                response.code = int(event.error_code)

    def ask(
        self,
        path: str = "/api/v1/pods",
        *fields: tuple[str, str],
        method: str = "GET",
        token: str = "ann-token",
        ended: bool = True,
    ) -> int:
        """Sends the head of a request to the cluster `dev`; returns its stream."""
        head = [(":method", method), (":scheme", "https"), (":authority", "proxy")]
        head += [(":path", PATH.decode() + path), *fields]
        if token:
            head.append(("authorization", f"Bearer {token}"))
        return self.send_head(head, ended=ended)

    def send_head(self, fields: Fields, *, ended: bool = True) -> int:
        """Sends these fields as the head of a request; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.responses[stream] = Response()
        self.h2.send_headers(stream, list(fields), end_stream=ended)
        self.flush()
        return stream

    async def until(self, stream: int, *, over: bool = True) -> Response:
        """Waits until a response is over, or has begun."""
        response = self.responses[stream]
        async with asyncio.timeout(10):
            while not (response.over or (response.status and not over)):
                assert not self.closed, f"the connection ended: {self.goaway}"
                self._news.clear()
                await self._news.wait()
        return response

    async def get(self, path: str = "/api/v1/pods", **options: str) -> Response:
        """Sends a request and returns its response."""
        return await self.until(self.ask(path, **options))  # ty: ignore[invalid-argument-type]

    async def end(self) -> int | None:
        """Waits until the connection has ended; returns the code of its GOAWAY frame."""
        async with asyncio.timeout(20):
            while not self.closed:
                self._news.clear()
                await self._news.wait()
        return self.goaway


@asynccontextmanager
async def http2_user(stack: Stack) -> AsyncGenerator[Http2User]:
    """A connection over TLS, in which both sides agree on HTTP/2."""
    trusting = stack.authority.client_context()
    trusting.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.port, ssl=trusting)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    user = Http2User(reader, writer)
    reading = stack.tasks.spawn("user", user.read())
    try:
        yield user
    finally:
        reading.cancel()
        writer.transport.abort()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
