"""The observer of answers finds exactly where they end, however they are cut."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.http1.response import BadResponse, ResponseObserver

REASONS = ("OK", "", "Not Found")
BODIES = st.binary(max_size=60)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, dict[str, bool]]:
    """A well-formed answer, and what its request was."""
    status = draw(st.sampled_from([200, 201, 204, 304, 404, 500]))
    head_request = draw(st.booleans())
    body = draw(BODIES)
    fields = [b"X-A: " + draw(st.sampled_from([b"", b"b", b"content-length: 7"]))]
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    bodyless = head_request or status in {204, 304}
    if framing == "length":
        fields.append(b"content-LENGTH: %d" % len(body))
        data = body
    elif framing == "chunked":
        fields.append(b"Transfer-Encoding: chunked")
        cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=3)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]
        trailer = draw(st.sampled_from([b"", b"T: v\r\n"]))
        data = (
            b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"
        )
    else:
        data = body
    early = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    line = b"HTTP/1.1 %d %s\r\n" % (status, draw(st.sampled_from(REASONS)).encode())
    head = early + line + b"\r\n".join(fields) + b"\r\n\r\n"
    known = {"close": framing == "close" and not bodyless, "head_request": head_request}
    return head + (b"" if bodyless else data), known


def feed(observer: ResponseObserver, data: bytes, cuts: list[int]) -> bytes:
    """Feed in pieces; what was passed on."""
    bounds = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    pieces = [data[a:b] for a, b in zip(bounds, bounds[1:], strict=False) if a < b]
    return b"".join(bytes(observer.feed(piece)) for piece in pieces)


CUTS = st.lists(st.integers(0, 250), max_size=6)


@given(answers(), CUTS)
def test_a_whole_answer_passes_unchanged_and_is_complete(
    answer: tuple[bytes, dict[str, bool]], cuts: list[int]
) -> None:
    """Every byte is passed on, and the end is known, however the bytes come."""
    data, known = answer
    observer = ResponseObserver(head_request=known["head_request"])
    assert feed(observer, data, cuts) == data
    assert observer.complete is not known["close"]
    assert observer.close_delimited is known["close"]
    observer.end(close=True)


@given(answers(), CUTS, st.data())
def test_a_cut_answer_is_never_complete(
    answer: tuple[bytes, dict[str, bool]], cuts: list[int], data: st.DataObject
) -> None:
    """Whatever is missing at the end, a clean end is refused."""
    whole, known = answer
    cut = data.draw(st.integers(0, len(whole) - 1))
    observer = ResponseObserver(head_request=known["head_request"])
    feed(observer, whole[:cut], cuts)
    if known["close"] and observer.status is not None:
        return
    assert not observer.complete
    with pytest.raises(BadResponse):
        observer.end(close=True)


@given(answers(), CUTS, st.binary(min_size=1, max_size=8) | st.just(b"\r\n") | st.just(b"\r\n\r\n"))
def test_bytes_beyond_the_end_are_refused(
    answer: tuple[bytes, dict[str, bool]], cuts: list[int], extra: bytes
) -> None:
    """Not one byte more than the answer, be it an empty line."""
    data, known = answer
    if known["close"]:
        return
    observer = ResponseObserver(head_request=known["head_request"])
    with pytest.raises(BadResponse):
        feed(observer, data + extra, cuts)


@given(st.binary(max_size=200), CUTS)
def test_garbage_raises_nothing_else(garbage: bytes, cuts: list[int]) -> None:
    """Whatever an agent sends, there is one error."""
    observer = ResponseObserver()
    try:
        feed(observer, b"HTTP/1.1 " + garbage, cuts)
    except BadResponse:
        pass


def test_switching_needs_to_be_asked_for() -> None:
    """After an asked-for 101 everything passes; an unasked one is refused."""
    switch = b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    observer = ResponseObserver(upgrade=True)
    assert observer.feed(switch + b"\x81") == switch + b"\x81"
    assert observer.upgraded
    assert observer.feed(b"HTTP/1.1 anything") == b"HTTP/1.1 anything"
    observer.end(close=False)
    with pytest.raises(BadResponse):
        ResponseObserver().feed(switch)


def test_keep_alive_is_as_the_answer_says() -> None:
    """A connection is used again only if the answer allows it."""
    for fields, kept in ((b"", True), (b"Connection: close\r\n", False)):
        observer = ResponseObserver()
        observer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + fields + b"\r\n")
        assert observer.keep_alive is kept


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Length: 2\r\n\r\nok",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"\r\nall there is",
    ],
)
def test_a_response_observer_is_freed_with_its_last_reference(answer: bytes) -> None:
    """Nothing waits for the collector: one of these is made for each request."""

    class Watched(ResponseObserver):
        __slots__ = ("__weakref__",)

    observer = Watched()
    observer.feed(b"HTTP/1.1 200 OK\r\n" + answer)
    known = weakref.ref(observer)
    gc.disable()
    try:
        del observer
        assert known() is None
    finally:
        gc.enable()


def test_an_endless_head_is_refused() -> None:
    """The buffer is bounded."""
    observer = ResponseObserver()
    with pytest.raises(BadResponse):
        for _ in range(100):
            observer.feed(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1000)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_doubtful_framing_is_refused(head: bytes) -> None:
    """No answer whose end two readers could see at different places."""
    with pytest.raises(BadResponse):
        ResponseObserver().feed(head)


JSON = b"Content-Type: application/json\r\n"
EVENT = b"8\r\n{event}\n\r\n"


@pytest.mark.parametrize(
    ("fields", "body", "may_end"),
    [
        (JSON, b"", True),
        (JSON, EVENT, True),
        (JSON, EVENT * 2, True),
        (JSON, EVENT[:-2], False),
        (JSON, EVENT[:6], False),
        (JSON, EVENT + b"5\r\n{half\r\n", False),
        (JSON, EVENT + b"0\r\n\r\n", False),
        (JSON + b"Content-Encoding: gzip\r\n", EVENT, False),
        (b"Content-Encoding: gzip\r\n" + JSON, b"", False),
        (b"Content-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n", EVENT, False),
    ],
)
def test_a_watch_may_be_ended_behind_a_line_of_plain_json(
    fields: bytes, body: bytes, may_end: bool
) -> None:
    """Nowhere else: a client would take half of an event for whole."""
    for early in (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"):
        observer = ResponseObserver()
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + fields + b"\r\n"
        for byte in early + head + body:
            observer.feed(bytes([byte]))
        assert observer.between_events is may_end


def test_an_answer_of_known_length_is_no_stream_of_events() -> None:
    observer = ResponseObserver()
    observer.feed(b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: 20\r\n\r\n{event}\n")
    assert not observer.between_events
