"""The answer to a fetch, in whatever pieces it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcache.mirror.transport import pktline
from gitcache.mirror.transport.fetch_response import FetchResponse, ServerError

SHA, OTHER = b"1" * 40, b"2" * 40
ANSWER = b"".join(
    [
        pktline.encode(b"shallow-info\n"),
        pktline.encode(b"shallow " + SHA),
        pktline.encode(b"unshallow " + OTHER),
        pktline.DELIMITER,
        pktline.encode(b"wanted-refs\n"),
        pktline.encode(OTHER + b" refs/heads/shallow"),
        pktline.DELIMITER,
        pktline.encode(b"packfile\n"),
        pktline.encode(b"\2counting objects"),
        pktline.encode(b"\1PACK"),
        pktline.encode(b"\1rest"),
        pktline.FLUSH,
    ]
)


@given(st.lists(st.integers(1, len(ANSWER) - 1), max_size=12))
def test_the_pack_is_the_same_however_the_answer_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(ANSWER)]
    answer = FetchResponse()
    pack = b"".join(
        answer.feed(ANSWER[start:end]) for start, end in zip(edges, edges[1:], strict=False)
    )
    assert pack == b"PACKrest" and answer.complete
    assert (answer.shallow, answer.unshallow) == ([SHA.decode()], [OTHER.decode()])


def test_an_answer_that_is_cut_off_is_not_complete() -> None:
    answer = FetchResponse()
    answer.feed(ANSWER[:-4])
    assert not answer.complete


@pytest.mark.parametrize(
    "data",
    [
        pktline.encode(b"ERR access denied"),
        pktline.encode(b"packfile\n") + pktline.encode(b"\3not our ref"),
    ],
)
def test_an_error_of_the_server_is_raised(data: bytes) -> None:
    with pytest.raises(ServerError, match=r"access denied|not our ref"):
        FetchResponse().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b"0003",
        b"+123",
        pktline.FLUSH,
        pktline.encode(b"PACK"),
        pktline.encode(b"packfile\n") + pktline.encode(b"\7data"),
        ANSWER + b"0000",
        ANSWER + pktline.encode(b"\1more"),
        pktline.encode(b"shallow " + SHA),
        pktline.encode(b"packfile\n") + pktline.DELIMITER + pktline.encode(b"\1PACK"),
    ],
)
def test_anything_else_is_malformed(data: bytes) -> None:
    with pytest.raises(pktline.Malformed):
        FetchResponse().feed(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        FetchResponse().feed(data)
    except (pktline.Malformed, ServerError):
        return
