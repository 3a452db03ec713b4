"""Our end of HTTP/2 against that of the h2 library, both ways round, its bytes cut anywhere."""

from collections.abc import Callable, Iterable

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.http2.connection import Http2Limits
from core.http2.stream import Headers, Http2Stream
from tests.fakes.http2 import ANSWER, REQUEST, Http2End

TRAILERS: Headers = (("grpc-status", "0"), ("grpc-message", "as you wish"))
SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from([16_383, 16_384, 16_385, 65_534, 65_535, 65_536, 70_000]),
    st.integers(0, 90_000),
)
BODIES = st.lists(st.lists(SIZES, max_size=4), min_size=1, max_size=3)
CUTS = st.lists(st.sampled_from([1, 2, 8, 9, 10, 100, 5_000, 16_393, 200_000]), min_size=1)
WINDOWS = st.sampled_from([0, 1, 100, 16_384, 65_535, 200_000, (1 << 31) - 1])
RUNS = settings(max_examples=40, deadline=None)


def _text(headers: Iterable[tuple[str | bytes, str | bytes]]) -> Headers:
    return [
        (
            name if isinstance(name, str) else name.decode(),
            value if isinstance(value, str) else value.decode(),
        )
        for name, value in headers
    ]


class H2End:
    """The library, which raises where our end breaks the rules, a window among them."""

    def __init__(self, *, client: bool) -> None:
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=client, header_encoding="utf-8")
        )
        self.h2.initiate_connection()
        self.bodies: dict[int, bytearray] = {}
        self.heads: dict[int, list[Headers]] = {}
        self.ended: list[int] = []
        self.owed: dict[int, int] = {}

    def receive(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.RequestReceived() | h2.events.ResponseReceived():
                    self.heads[event.stream_id] = [_text(event.headers)]
                    self.bodies[event.stream_id] = bytearray()
                case h2.events.TrailersReceived():
                    self.heads[event.stream_id].append(_text(event.headers))
                case h2.events.DataReceived():
                    self.bodies[event.stream_id] += event.data
                    flow = event.flow_controlled_length
                    self.owed[event.stream_id] = self.owed.get(event.stream_id, 0) + flow
                case h2.events.StreamEnded():
                    self.ended.append(event.stream_id)
                case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                    raise AssertionError(event)

    def take(self) -> bool:
        """Have the far side go on."""
        owed, self.owed = self.owed, {}
        for stream_id, size in owed.items():
            self.h2.acknowledge_received_data(size, stream_id)
        return bool(owed)

    def send(self, stream_id: int, body: bytes, padding: int) -> bytes:
        """Sends one frame of the body; returns the rest."""
        room = self.h2.local_flow_control_window(stream_id) - padding - 1
        size = min(len(body), room, self.h2.max_outbound_frame_size - padding - 1)
        if size > 0:
            self.h2.send_data(stream_id, body[:size], pad_length=padding or None)
        return body[max(size, 0) :]


class Meeting:
    """Both ends, and the wire between them, which splits its bytes at the given cuts."""

    def __init__(self, ours: Http2End, library: H2End, cuts: list[int]) -> None:
        self.ours, self.library, self.cuts = ours, library, cuts
        self.carried = 0

    def settle(self) -> None:
        """Until neither has anything to say."""
        while self._carry(self.ours.transport.take(), self.library.receive) or self._carry(
            self.library.h2.data_to_send(), self.ours.connection.receive
        ):
            pass
        assert not self.ours.connection.closed, self.ours.connection.reason

    def _carry(self, data: bytes, receive: Callable[[bytes], None]) -> bool:
        at = 0
        while at < len(data):
            size = self.cuts[self.carried % len(self.cuts)]
            # Thousands of tiny pieces tell nothing that hundreds do not.
            self.carried += 1
            size = size if self.carried < 300 else 200_000
            receive(data[at : at + size])
            at += size
        return bool(data)


def pattern(size: int, seed: int) -> bytes:
    """Bytes that tell their place."""
    return (seed.to_bytes(1, "big") + bytes(range(251))).__mul__(size // 252 + 1)[:size]


def met(client: bool, cuts: list[int], ours: Http2End) -> tuple[H2End, Meeting]:
    """The library at the other end of ours, greeted."""
    library = H2End(client=not client)
    meeting = Meeting(ours, library, cuts)
    meeting.settle()
    return library, meeting


def opened(meeting: Meeting, count: int, *, client: bool) -> list[Http2Stream]:
    """So many streams of the client, whichever that is."""
    for number in range(count):
        if client:
            meeting.ours.open()
        else:
            meeting.library.h2.send_headers(2 * number + 1, REQUEST)
    meeting.settle()
    streams = [reader.stream for reader in meeting.ours.readers.values()]
    if not client:
        for stream in streams:
            stream.send_headers(ANSWER)
    return streams


def changed(library: H2End, window: int) -> None:
    """Settings of the library's that bear upon what we send."""
    library.h2.update_settings(
        {
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
            h2.settings.SettingCodes.HEADER_TABLE_SIZE: window % 5_000,
        }
    )


@pytest.mark.parametrize("client", [False, True], ids=["we serve", "we call"])
@given(
    bodies=BODIES,
    cuts=CUTS,
    frame_size=st.sampled_from([16_384, 16_385, 70_000]),
    windows=st.lists(WINDOWS, max_size=3),
    trailers=st.booleans(),
)
@RUNS
def test_all_that_we_send_is_read(
    client: bool,
    bodies: list[list[int]],
    cuts: list[int],
    frame_size: int,
    windows: list[int],
    trailers: bool,
) -> None:
    """Whole, in order, with its end and trailers once; through windows that change in the midst,
    below nothing too. The library raises where a window or a frame size is exceeded."""
    ours = Http2End(client=client)
    library, meeting = met(client, cuts, ours)
    library.h2.update_settings({h2.settings.SettingCodes.MAX_FRAME_SIZE: frame_size})
    streams = opened(meeting, len(bodies), client=client)
    sent = {stream.id: b"" for stream in streams}
    for number in range(4):
        for window in windows[number : number + 1]:
            changed(library, window)
        for stream, sizes in zip(streams, bodies, strict=True):
            for size in sizes[number : number + 1]:
                piece = pattern(size, number)
                stream.send((piece[:7], piece[7:]), len(piece))
                sent[stream.id] += piece
        meeting.settle()
        assert all(library.bodies[id] == sent[id][: len(library.bodies[id])] for id in sent)
    if not trailers:
        # The library takes no empty frame below a window, whose end RFC 9113 allows (6.9.1).
        changed(library, 300_000)
        meeting.settle()
    for stream in streams:
        stream.end(TRAILERS if trailers else ())
    changed(library, 300_001)
    meeting.settle()
    while library.take():
        meeting.settle()
    assert library.bodies == sent
    assert sorted(library.ended) == sorted(sent)
    trailers_read = [list(TRAILERS)] if trailers else []
    assert all(library.heads[id][1:] == trailers_read for id in sent)
    for stream in streams:
        if client:
            library.h2.send_headers(stream.id, ANSWER)
        library.h2.end_stream(stream.id)
    meeting.settle()
    assert not ours.connection.streams and all(r.ended for r in ours.readers.values())


@pytest.mark.parametrize("client", [False, True], ids=["we serve", "we call"])
@given(
    bodies=BODIES,
    cuts=CUTS,
    padding=st.sampled_from([0, 0, 1, 200]),
    trailers=st.booleans(),
    patient=st.booleans(),
)
@RUNS
def test_all_that_is_sent_to_us_is_read(
    client: bool,
    bodies: list[list[int]],
    cuts: list[int],
    padding: int,
    trailers: bool,
    patient: bool,
) -> None:
    """Whole, in order, however padded and cut; the sender waits while nobody takes what came."""
    ours = Http2End(client=client, limits=Http2Limits(window=70_000), takes=not patient)
    library, meeting = met(client, cuts, ours)
    left = {2 * number + 1: pattern(sum(sizes), number) for number, sizes in enumerate(bodies)}
    whole = dict(left)
    for stream_id in left:
        if client:
            ours.open()
            meeting.settle()
        library.h2.send_headers(stream_id, ANSWER if client else REQUEST)
    while any(left.values()):
        before = dict(left)
        left = {id: library.send(id, body, padding) for id, body in left.items()}
        meeting.settle()
        if left == before:
            assert patient or padding
            assert all(reader.owed <= 70_000 for reader in ours.readers.values())
            for reader in ours.readers.values():
                reader.take()
            meeting.settle()
            assert any(
                library.h2.local_flow_control_window(id) > padding + 1
                for id, body in left.items()
                if body
            )
    for stream_id in whole:
        if trailers:
            library.h2.send_headers(stream_id, TRAILERS, end_stream=True)
        else:
            library.h2.end_stream(stream_id)
    meeting.settle()
    for stream_id, body in whole.items():
        reader = ours.readers[stream_id]
        assert reader.body == body and reader.ended and reader.reset is None
        trailers_read = [list(TRAILERS)] if trailers else []
        assert [list(map(tuple, head)) for head in reader.heads[1:]] == trailers_read
        reader.stream.end(() if client else ANSWER)
    meeting.settle()
    assert not ours.connection.streams


def test_padding_is_given_back() -> None:
    """It counts in windows, and nobody ever reads it."""
    ours = Http2End()
    library, meeting = met(False, [200_000], ours)
    library.h2.send_headers(1, REQUEST)
    for _ in range(600):
        library.h2.send_data(1, b"x", pad_length=250)
        meeting.settle()
    assert ours.readers[1].body == b"x" * 600


@pytest.mark.parametrize("client", [False, True], ids=["we serve", "we call"])
def test_headers_of_more_than_a_frame(client: bool) -> None:
    """They go on in CONTINUATION; none is in a table."""
    secret = ("authorization", "Bearer of a very long word " + "x" * 7_000)
    headers = ((":status", "200"),) if client is False else REQUEST
    large = (*headers, secret, *((f"name-{number}", "y" * 900) for number in range(8)))
    ours = Http2End(client=client)
    library, meeting = met(client, [200_000], ours)
    library.h2.update_settings({h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 20})
    ours.connection.frame_size = 500
    if client:
        ours.open(large)
    else:
        library.h2.send_headers(1, REQUEST)
        meeting.settle()
        ours.readers[1].stream.send_headers(large)
    meeting.settle()
    assert library.heads[1][0] == list(large)
    assert not library.h2.decoder.header_table.dynamic_entries


@pytest.mark.parametrize("client", [False, True], ids=["we serve", "we call"])
def test_a_smaller_table_of_headers_is_announced_once(client: bool) -> None:
    """The library refuses headers that do not announce it (RFC 7541, 4.2)."""
    ours = Http2End(client=client)
    library, meeting = met(client, [200_000], ours)
    library.h2.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: 100})
    meeting.settle()
    streams = opened(meeting, 2, client=client)
    meeting.settle()
    assert all(library.heads[stream.id] for stream in streams)
    assert library.h2.decoder.header_table_size == 0
    assert ours.connection._table_update == b""
