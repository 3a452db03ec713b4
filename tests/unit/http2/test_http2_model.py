"""Two of our ends against each other, driven at random and compared with a simple model."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from core.http2.connection import Http2Limits
from core.http2.frames import DEFAULT_WINDOW, ErrorCode
from core.http2.stream import Headers
from tests.fakes.http2 import Http2End, StreamReader

TRAILERS: Headers = [("grpc-status", "0")]
SIZES = st.sampled_from([0, 1, 40, 9_000, 65_530, 65_535, 65_536, 140_000])
HERE = st.booleans()


class Http2Machine(RuleBasedStateMachine):
    """Rules are what owners and the network may do; the invariants are the promises.

    The readers themselves assert that an end is reported once, and nothing after it.
    """

    streams = Bundle("streams")

    @initialize(
        target=streams,
        window=st.sampled_from([DEFAULT_WINDOW, 200_000]),
        takes=st.booleans(),
        lossy=st.booleans(),
    )
    def connect(self, window: int, takes: bool, lossy: bool) -> MultipleResults[int]:
        """Bytes lie on the way until they are delivered; on some lines things break early."""
        limits = Http2Limits(streams=5, window=window)
        self.client = Http2End(client=True, limits=limits, takes=takes)
        self.server = Http2End(limits=limits, takes=takes)
        self.ends = (self.client, self.server)
        self.sent: dict[tuple[Http2End, int], bytearray] = {}
        self.finished: dict[tuple[Http2End, int], bool] = {}
        self.cut: set[int] = set()
        self.gone, self.lossy = False, lossy
        self.pattern = 0
        opened = [self.client.open().stream.id for _ in range(3)]
        self.deliver_all()
        return multiple(*opened)

    def _other(self, end: Http2End) -> Http2End:
        return self.server if end is self.client else self.client

    def _live(self, end: Http2End, stream_id: int) -> StreamReader | None:
        """The reader at this end of a stream that is not over there."""
        reader = end.readers.get(stream_id)
        return None if reader is None or reader.stream.closed else reader

    @rule(target=streams)
    def open(self) -> int:
        if not self.client.connection.usable:
            return 0
        return self.client.open().stream.id

    @rule(
        stream_id=streams,
        here=HERE,
        sizes=st.lists(SIZES, min_size=1, max_size=3),
        last=st.sampled_from([False, False, True]),
    )
    def send(self, stream_id: int, here: bool, sizes: list[int], last: bool) -> None:
        end = self.ends[here]
        reader = self._live(end, stream_id)
        if reader is None or reader.stream.local_ended:
            return
        for size in sizes:
            self.pattern = (self.pattern + 1) % 250
            piece = (bytes([self.pattern]) + bytes(range(251))) * (size // 252 + 1)
            reader.stream.send((piece[: size // 2], piece[size // 2 : size]), size)
            self.sent.setdefault((end, stream_id), bytearray()).extend(piece[:size])
        if last:
            self.end(stream_id, here, trailers=True)

    @rule(stream_id=streams, here=HERE, trailers=st.booleans())
    def end(self, stream_id: int, here: bool, trailers: bool) -> None:
        end = self.ends[here]
        reader = self._live(end, stream_id)
        if reader is not None and not reader.stream.local_ended:
            reader.stream.end(TRAILERS if trailers else ())
            self.finished[end, stream_id] = trailers

    @precondition(lambda self: self.lossy)
    @rule(stream_id=streams, here=HERE)
    def reset(self, stream_id: int, here: bool) -> None:
        reader = self._live(self.ends[here], stream_id)
        if reader is not None:
            self.cut.add(stream_id)
            reader.stream.reset(ErrorCode.CANCEL)

    @rule(stream_id=streams, here=HERE)
    def take(self, stream_id: int, here: bool) -> None:
        reader = self.ends[here].readers.get(stream_id)
        if reader is not None:
            reader.take()

    @rule(stream_id=streams, here=HERE)
    def widen(self, stream_id: int, here: bool) -> None:
        reader = self._live(self.ends[here], stream_id)
        if reader is not None:
            reader.stream.widen_receive_window(400_000)

    @rule(here=HERE, size=st.sampled_from([1, 9, 50, 3_000, 100_000]))
    def deliver(self, here: bool, size: int) -> None:
        """Some of what is on its way."""
        self._carry(self.ends[here], size)

    @rule()
    def deliver_all(self) -> None:
        """Delivers bytes in flight to the server, then those in flight back."""
        self._carry(self.client, 1 << 30)
        self._carry(self.server, 1 << 30)

    def _carry(self, end: Http2End, size: int) -> bool:
        data = end.transport.take(size)
        if data:
            self._other(end).connection.receive(data)
        return bool(data)

    @rule(here=HERE)
    def pause(self, here: bool) -> None:
        self.ends[here].connection.pause()

    @rule(here=HERE)
    def resume(self, here: bool) -> None:
        self.ends[here].connection.resume()

    @rule(here=HERE)
    def trust(self, here: bool) -> None:
        self.ends[here].connection.raise_frame_limit(50_000)

    @precondition(lambda self: self.lossy)
    @rule()
    def go_away(self) -> None:
        self.server.connection.go_away("enough")

    @precondition(lambda self: self.lossy)
    @rule(here=HERE)
    def lose(self, here: bool) -> None:
        """The line is cut; what was on its way is lost."""
        if not self.gone:
            self.gone = True
            for end in (self.ends[here], self.ends[not here]):
                end.transport.take()
                end.connection.lost("cut")

    @invariant()
    def nothing_is_broken(self) -> None:
        """No end has found fault with the other; what has come is what was sent."""
        for end in self.ends:
            connection = end.connection
            parted = connection.going_away and not connection.streams
            assert connection.closed == (self.gone or parted), connection.reason
            for stream_id, reader in end.readers.items():
                sent = self.sent.get((self._other(end), stream_id), b"")
                assert sent.startswith(reader.body)
                if reader.ended:
                    assert reader.body == sent and (self._other(end), stream_id) in self.finished
                assert reader.stream.closed == (stream_id not in end.connection.streams)

    def teardown(self) -> None:
        """Once all is delivered, read and ended, both have heard it all, and keep nothing."""
        for end in self.ends:
            end.connection.resume()
        # What is ended while it waits for room; then what was on its way to be opened.
        for _ in range(2):
            self._end_all()
            self._settle()
        self.nothing_is_broken()
        for end in self.ends:
            assert not end.connection.streams and not end.connection._window_waiters
            for stream_id, reader in end.readers.items():
                assert reader.ended or reader.reset or stream_id in self.cut

    def _end_all(self) -> None:
        for here, end in enumerate(self.ends):
            for stream_id in end.readers:
                self.end(stream_id, bool(here), trailers=end is self.server)

    def _settle(self) -> None:
        going = True
        while going:
            going = False
            for end in self.ends:
                for reader in end.readers.values():
                    reader.take()
                going = self._carry(end, 1 << 30) or going


Http2Machine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestHttp2Model = Http2Machine.TestCase
