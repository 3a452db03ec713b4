"""The reader of chunked bodies stops exactly at their end, and agrees with a second parser."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.http1.chunked import MAX_LINE, BadChunk, ChunkedReader

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(data: bytes, cuts: list[int]) -> tuple[bytes, int, bool]:
    """Payload, bytes used, and whether the body ended."""
    reader = ChunkedReader()
    bounds = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    payload, used = b"", 0
    for a, b in zip(bounds, bounds[1:], strict=False):
        taken, pieces = reader.feed(data[a:b])
        payload += b"".join(pieces)
        used += taken
        if reader.done:
            break
    return payload, used, reader.done


def second_opinion(data: bytes) -> bytes | None:
    """The payload as h11 reads it; None: it refuses, or wants more."""
    connection = h11.Connection(h11.SERVER)
    payload = b""
    try:
        connection.receive_data(HEAD + data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Data):
                payload += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return payload
            elif event is h11.NEED_DATA:
                return None
    except h11.RemoteProtocolError:
        return None


CHUNKS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)
CUTS = st.lists(st.integers(0, 120), max_size=6)


@given(CHUNKS, st.sampled_from([b"", b";a=b", b" ;x"]), st.sampled_from([b"", b"A: b\r\n"]), CUTS)
def test_a_body_ends_where_it_ends(
    chunks: list[bytes], extension: bytes, trailers: bytes, cuts: list[int]
) -> None:
    """Payload and length are exact, whatever follows and however the bytes come."""
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(c), extension, c) for c in chunks)
    body += b"0\r\n" + trailers + b"\r\n"
    assert read(body + b"GET /next", cuts) == (b"".join(chunks), len(body), True)


@given(
    st.lists(st.sampled_from([b"0", b"3", b"a", b"\r\n", b"\n", b"\r", b";", b" ", b"xyz", b":"]))
)
def test_accepted_input_is_read_alike_by_a_second_parser(tokens: list[bytes]) -> None:
    """Being stricter is fine; reading other bytes is not."""
    data = b"".join(tokens)
    try:
        payload, used, done = read(data, [])
    except BadChunk:
        return
    if done:
        assert second_opinion(data[:used]) == payload


@pytest.mark.parametrize(
    "body",
    [
        b"5\nhello\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"-5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"\r\n",
        b"1" * 16 + b"\r\n",
        b"5" + b";" * MAX_LINE + b"\r\n",
        b"0\r\nbad trailer\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 10_000,
    ],
)
def test_broken_bodies_are_refused(body: bytes) -> None:
    """No guess at what a client may have meant."""
    with pytest.raises(BadChunk):
        read(body, [])
