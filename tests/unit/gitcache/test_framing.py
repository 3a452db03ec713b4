"""Messages to and from workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcache.render import framing


@given(st.dictionaries(st.text(), st.integers(0, 9)), st.dictionaries(st.text(), st.binary()))
def test_encoding_round_trips(fields: dict[str, int], blobs: dict[str, bytes]) -> None:
    data = framing.encode(fields, blobs)
    size = framing.LENGTH.size
    length = framing.header_length(data[:size])
    read, sizes = framing.parse_header(data[size : size + length], 1 << 20)
    rest = data[size + length :]
    found = {}
    for name, count in sizes:
        found[name], rest = rest[:count], rest[count:]
    assert (read, found, rest) == (fields, blobs, b"")


@given(st.binary(max_size=100))
def test_any_header_is_read_or_bad(data: bytes) -> None:
    try:
        framing.parse_header(data, 100)
    except framing.BadMessage:
        return


def test_a_message_beyond_the_limits_is_bad() -> None:
    with pytest.raises(framing.BadMessage):
        framing.header_length(framing.LENGTH.pack(framing.MAX_HEADER + 1))
    data = framing.encode({}, {"a": b"x" * 11})
    with pytest.raises(framing.BadMessage):
        framing.parse_header(data[4:-11], 10)
