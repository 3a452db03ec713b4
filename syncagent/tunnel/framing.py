"""Framing of requests on connections that have permissions of their own.
A client certificate, unlike a token, authenticates every request on its connection. So bytes beyond
the body of a request must never reach the API server: it would read them as the agent's request.
"""

import re

from core.http1.chunked import BadChunk, ChunkedReader
from core.mux.codec import Buffer
from syncagent.tunnel.guard import ForwardingRefused

_FRAMING = re.compile(rb"(?i)\r\n(content-length|transfer-encoding):[ \t]*([^\r]*?)[ \t]*(?=\r\n)")
_LENGTH = re.compile(rb"[0-9]{1,18}\Z")
_BEYOND_BODY = "the request has bytes beyond its body"


class RequestFraming:
    """Checks that the bytes after a head are exactly its body; `done` once it is complete.
    ForwardingRefused: the head announces no body of clear length.
    """

    def __init__(self, head: bytes) -> None:
        self._remaining, self._chunks = 0, None
        fields = _FRAMING.findall(head)
        if len(fields) > 1:
            raise ForwardingRefused("the length of the request's body is ambiguous")
        for name, value in fields:
            if name.lower() == b"content-length" and _LENGTH.match(value):
                self._remaining = int(value)
            elif value.lower() == b"chunked" and b" HTTP/1.1\r\n" in head:
                self._chunks = ChunkedReader()
            else:
                raise ForwardingRefused("the length of the request's body is ambiguous")

    @property
    def done(self) -> bool:
        return not self._remaining if self._chunks is None else self._chunks.done

    def check(self, data: Buffer) -> None:
        """Checks the next bytes. ForwardingRefused: they do not belong to the body."""
        if self._chunks is None:
            self._remaining -= len(data)
            if self._remaining < 0:
                raise ForwardingRefused(_BEYOND_BODY)
            return
        try:
            used, _ = self._chunks.feed(bytes(data))
        except BadChunk as error:
            raise ForwardingRefused(str(error)) from None
        if used < len(data):
            raise ForwardingRefused(_BEYOND_BODY)
