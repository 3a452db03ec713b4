"""HTTP requests to the API server: one exchange at a time on each of a pool's connections."""

import asyncio
import ssl
import zlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httptools

from core.http1.connection import UpstreamConnection
from core.http1.pool import ConnectionPool, ServerAddress

_DIAL_S = 10.0
_IDLE_LIMIT = 64
# Bodies that wait for their reader stop the connection.
_MAX_UNREAD = 256 << 10
_MAX_HEAD = 64 << 10
_GZIP = 16 + zlib.MAX_WBITS
_REPEATABLE = frozenset({"GET", "DELETE"})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.

    `target`: encoded path and query. `headers`: names in any case; values without line breaks.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None

    def encoded(self, fields_of_all: bytes) -> bytes:
        """Returns the bytes of the request, with header lines that all requests have.

        ValueError: target or headers are malformed.
        """
        target, fields = self.target, "".join(f"{n}: {v}\r\n" for n, v in self.headers.items())
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"{target!r} is not an encoded path")
        if fields.count("\r") != len(self.headers) or fields.count("\n") != len(self.headers):
            raise ValueError("a header contains a line break")
        body = self.body
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        line = f"{self.method} {target} HTTP/1.1\r\n".encode()
        parts = (line, fields_of_all, fields.encode(), length, b"\r\n", body or b"")
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete response; `retry_after` is the header of that name."""

    status: int
    retry_after: str
    body: bytes


class HttpBody:
    """The user of a connection: the response to one request. Iterates over its body.

    `status` is 0 until the head is complete. OSError while iterating: the response was cut off or
    is malformed, or the server sent nothing for `silence` seconds.
    """

    def __init__(self, connection: UpstreamConnection, silence: float | None = None) -> None:
        self.status, self.retry_after, self.complete = 0, "", False
        self._connection, self._silence = connection, silence
        # Dropped at the end, as it holds methods of this object: cycles are freed late.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._unread: deque[bytes] = deque()
        self._unread_bytes = self._head_bytes = 0
        self._is_gzip = self._is_framed = self._keeps_alive = False
        self._failure: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        connection.user = self

    @property
    def begun(self) -> bool:
        """True after the first byte of the response."""
        return self._head_bytes > 0

    def finish(self) -> bool:
        """Ends the use of the connection; returns true if another request can use it."""
        self._parser = None
        return self.complete and self._keeps_alive

    async def head(self) -> None:
        """Waits for the head. OSError: see the class."""
        while not self.status and self._failure is None:
            await self._wait()
        if self._failure is not None:
            raise self._failure

    async def read(self) -> bytes:
        """Reads the whole body. OSError: see the class."""
        data = b"".join([piece async for piece in self])
        if not self._is_gzip or not data:
            return data
        try:
            return zlib.decompress(data, _GZIP)
        except zlib.error as error:
            raise ConnectionError(f"the response is malformed: {error}") from None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while not self._unread:
                if self.complete:
                    return
                if self._failure is not None:
                    raise self._failure
                await self._wait()
            piece = self._unread.popleft()
            self._unread_bytes -= len(piece)
            if self._unread_bytes <= _MAX_UNREAD:
                self._connection.resume_reading()
            yield piece

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(self._silence):
            await waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Events of the connection

    def on_upstream_data(self, data: bytes) -> None:
        if not self.status:
            self._head_bytes += len(data)
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the response is malformed: {error}")
        if not self.status and self._head_bytes > _MAX_HEAD:
            self._fail("the head of the response is too long")
        self._wake()

    def on_upstream_closed(self) -> None:
        if self.status and not self._is_framed:
            self.complete = True
        elif not self.complete:
            self._failure = self._failure or ConnectionResetError("server disconnected")
        self._wake()

    def on_upstream_drained(self) -> None:
        """Handles free space in the socket's buffer: requests are small."""

    def _fail(self, reason: str) -> None:
        self._failure = ConnectionError(reason)
        self._connection.abort()

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        if self.complete:
            # Bytes beyond the response: another request must not get them.
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete:
            return
        lower = name.lower()
        if lower in {b"content-length", b"transfer-encoding"}:
            self._is_framed = True
        elif lower == b"content-encoding":
            self._is_gzip = value.lower() == b"gzip"
        elif lower == b"retry-after":
            self.retry_after = value.decode("ascii", "replace")

    def on_headers_complete(self) -> None:
        if self._parser is not None and not self.complete:
            status = self._parser.get_status_code()
            self.status = status if status >= 200 else 0
            self._keeps_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if self.complete:
            return
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._silence is not None and self._unread_bytes > _MAX_UNREAD:
            self._connection.pause_reading()

    def on_message_complete(self) -> None:
        self.complete = bool(self.status)


class HttpClient:
    """Sends requests to one server; see `ConnectionPool` for `idle_seconds`."""

    def __init__(self, address: ServerAddress, idle_seconds: float = 10.0) -> None:
        self._address = address
        self._fields = b"Host: %s\r\nUser-Agent: towline-agent\r\n" % address.authority
        self._pool = ConnectionPool(address, _IDLE_LIMIT, idle_seconds)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Sends a request, and returns its response.

        OSError: the server cannot be reached, or its response is cut off or malformed. Unavailable:
        the proxy refuses. ValueError: see `HttpRequest.encoded`.
        """
        async with self.open(request) as body:
            data = await body.read()
            return HttpAnswer(body.status, body.retry_after, data)

    @asynccontextmanager
    async def open(
        self, request: HttpRequest, silence: float | None = None
    ) -> AsyncGenerator[HttpBody]:
        """Sends a request, and yields its response after the head; see `send`.

        Leaving an incomplete response ends its connection.
        """
        data = request.encoded(self._fields)
        self._pool.current_tls()
        connection = self._pool.take() or await self._dial()
        body = HttpBody(connection, silence)
        try:
            connection.write(data)
            try:
                await body.head()
            except ConnectionError:
                # The server may have closed an idle connection meanwhile.
                if not connection.used or body.begun or request.method not in _REPEATABLE:
                    raise
                connection = await self._dial()
                body = HttpBody(connection, silence)
                connection.write(data)
                await body.head()
            yield body
        finally:
            if body.finish():
                self._pool.give_back(connection)
            else:
                # Without a goodbye over TLS: the server may be slow to answer it.
                connection.abort()

    async def close(self) -> None:
        """Closes all connections, also those of cancelled requests."""
        await self._pool.abort()

    async def _dial(self) -> UpstreamConnection:
        try:
            async with asyncio.timeout(_DIAL_S):
                return await self._pool.dial()
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate is not trusted: {error.verify_message or error}"
            raise ConnectionError(reason) from error
        except TimeoutError:
            raise
        except OSError as error:
            place, reason = self._address.authority.decode(), error.strerror or error
            raise ConnectionError(f"{place}: {reason}") from error
