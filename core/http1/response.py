"""Observes the bytes of a response without changing them: status, framing and end."""

from collections.abc import Callable

import httptools

from core.mux.codec import Buffer

MAX_HEAD = 64 << 10
END_OF_HEAD = b"\r\n\r\n"
SWITCHING = 101


def add_fields(data: Buffer, status: int, fields: bytes) -> Buffer:
    """Adds header lines to the first head in `data`, if it is the final one."""
    text = bytes(data)
    line, end, rest = text.partition(b"\r\n")
    if line[9:12] != b"%d" % status:
        return data
    return line + end + fields + rest


class BadResponse(Exception):
    """The bytes are not exactly one response to the request."""


class ResponseObserver:
    """Observes the response to one request and detects its end.

    `status` is the final status, None until it is known. `complete` is true after the last
    byte. `upgraded` means a requested 101: raw bytes follow. `keep_alive` means that the
    connection can be reused.
    """

    __slots__ = (
        "_body",
        "_has_head",
        "_head_request",
        "_is_chunked",
        "_is_encoded",
        "_is_json",
        "_length",
        "_may_upgrade",
        "_parser",
        "_partial_head",
        "_remaining",
        "_tail",
        "close_delimited",
        "complete",
        "keep_alive",
        "status",
        "upgraded",
    )

    def __init__(self, *, head_request: bool = False, upgrade: bool = False) -> None:
        self.status: int | None = None
        self.complete = self.upgraded = self.keep_alive = self.close_delimited = False
        self._head_request, self._may_upgrade = head_request, upgrade
        self._partial_head = b""
        # Hold no bound method, and drop the parser, which holds some, after its last use: reference
        # cycles are freed late.
        self._body: _BodyReader | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._length: int | None = None
        self._remaining = 0
        self._is_chunked = self._is_json = self._is_encoded = self._has_head = False
        self._tail = b""

    @property
    def between_events(self) -> bool:
        """True if a chunked stream of JSON lines is at the end of a line and can be ended here."""
        if not self._is_chunked or self.complete or not self._is_json or self._is_encoded:
            return False
        return not self._tail or self._tail.endswith(b"\n\r\n")

    def feed(self, data: Buffer) -> Buffer:
        """Returns the bytes that may be forwarded now; a head only once it is complete.

        Raises BadResponse for bytes that are malformed or beyond the end of the response.
        """
        if self._body is None:
            return self._read_heads(data)
        self._body(self, data)
        return data

    def end(self, *, close: bool) -> None:
        """Ends the input. Raises BadResponse if the response is incomplete."""
        if self.upgraded or self.complete:
            return
        if not (close and self.close_delimited):
            raise BadResponse("the response was cut off")
        self.complete = True

    def _read_heads(self, data: Buffer) -> Buffer:
        text = self._partial_head + data if self._partial_head else bytes(data)
        position = 0
        while self._body is None:
            end = text.find(END_OF_HEAD, position)
            if end < 0:
                self._partial_head = text[position:]
                if len(self._partial_head) > MAX_HEAD:
                    raise BadResponse("the response head is too long")
                return text[:position]
            self._on_head(text[position : end + 4])
            position = end + 4
        self._partial_head = b""
        if position < len(text):
            self._body(self, text[position:])
        return text

    def _on_head(self, head: bytes) -> None:
        self._length, self._is_chunked, self._has_head = None, False, False
        parser = self._parser = httptools.HttpResponseParser(self)
        status = 0
        try:
            parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            status = SWITCHING
        except httptools.HttpParserError as error:
            raise BadResponse(f"the response head is malformed: {error}") from None
        status = status or parser.get_status_code()
        if not self._has_head:
            raise BadResponse("the response does not start with a head")
        if status >= 200:
            self.status = status
            self._body = self._framing(status)
        elif status == SWITCHING:
            self._on_switch()
        if self._body is not ResponseObserver._on_chunks:
            self._parser = None

    def _on_switch(self) -> None:
        if not self._may_upgrade:
            raise BadResponse("unrequested upgrade")
        self.status, self.upgraded = SWITCHING, True
        self._body = ResponseObserver._on_raw

    def _framing(self, status: int) -> "_BodyReader":
        if self._head_request or status in {204, 304}:
            self.complete = True
            return ResponseObserver._on_excess
        if self._is_chunked:
            self.complete = False
            return ResponseObserver._on_chunks
        if self._length is None:
            self.close_delimited, self.keep_alive = True, False
            return ResponseObserver._on_raw
        self._remaining = self._length
        self.complete = not self._remaining
        return ResponseObserver._on_counted

    def _on_counted(self, data: Buffer) -> None:
        self._remaining -= len(data)
        if self._remaining < 0:
            self._on_excess(data)
        self.complete = not self._remaining

    def _on_chunks(self, data: Buffer) -> None:
        if self._parser is None:
            self._on_excess(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BadResponse(f"the response chunks are malformed: {error}") from None
        self._tail = (self._tail + data[-6:])[-6:]
        if self.complete:
            self._parser = None
            if not self._ends_exactly():
                self._on_excess(data)

    def _ends_exactly(self) -> bool:
        """Checks the last bytes, because the parser skips empty lines after a message."""
        return self._tail.endswith(END_OF_HEAD) and self._tail != b"\r\n\r\n\r\n"

    def _on_raw(self, data: Buffer) -> None:
        pass

    def _on_excess(self, data: Buffer) -> None:
        if data:
            raise BadResponse("bytes beyond the end of the response")

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        if self._has_head:
            raise BadResponse("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return
        lower = name.lower()
        if lower == b"content-length":
            self._length = int(value)
        elif lower == b"content-type":
            self._is_json = value.startswith(b"application/json")
        elif lower == b"content-encoding":
            self._is_encoded = True
        elif lower == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise BadResponse("unsupported transfer encoding: only chunked is supported")
            self._is_chunked = True

    def on_headers_complete(self) -> None:
        self._has_head = True
        if self._parser is not None:
            self.keep_alive = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        if self._body is not None:
            self.complete = True


_BodyReader = Callable[[ResponseObserver, Buffer], None]
