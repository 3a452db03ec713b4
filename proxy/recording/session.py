"""Recording of one session: parses both directions beside the forwarded bytes."""

from collections.abc import Callable

from core.mux.codec import Buffer
from proxy.domain.terminal import TerminalSession, UnrecordableError
from proxy.recording.asciicast import AsciicastWriter
from proxy.recording.spdy import SpdyReader, SpdyStreams
from proxy.recording.websocket import WebSocketReader

_STDIN, _STDOUT, _STDERR, _RESIZE = 0, 1, 2, 4
_CHANNELS = {"stdin": _STDIN, "stdout": _STDOUT, "stderr": _STDERR, "resize": _RESIZE}


class LiveRecording:
    """Implements the port `TerminalRecording` with an asciicast. `failed`: reason why the recording
    ended early.
    """

    def __init__(self, cast: AsciicastWriter, session: TerminalSession) -> None:
        self.cast = cast
        self.closed = False
        self.failed: str | None = None
        self._keep_input = session.keep_input
        self._from_user, self._from_cluster = (
            self._spdy_readers() if session.spdy else self._websocket_readers(session.keep_input)
        )

    def from_user(self, data: Buffer) -> None:
        self._feed(self._from_user, data)

    def from_cluster(self, data: Buffer) -> None:
        self._feed(self._from_cluster, data)

    def close(self) -> None:
        self.closed = True

    def _feed(self, reader: Callable[[Buffer], None], data: Buffer) -> None:
        if self.failed is not None:
            raise UnrecordableError(self.failed)
        reader(data)

    def _websocket_readers(self, keep_input: bool) -> tuple[Callable[[Buffer], None], ...]:
        input_channels = frozenset({_STDIN, _RESIZE} if keep_input else {_RESIZE})
        user = WebSocketReader(self._on_channel_data, input_channels)
        cluster = WebSocketReader(self._on_channel_data, frozenset({_STDOUT, _STDERR}))
        return user.feed, cluster.feed

    def _spdy_readers(self) -> tuple[Callable[[Buffer], None], ...]:
        streams = SpdyStreams()

        def on_data(stream: int, data: bytes) -> None:
            stream_type = streams.types.get(stream)
            if stream_type is None:
                raise UnrecordableError("data of an unknown SPDY stream")
            channel = _CHANNELS.get(stream_type)
            if channel is not None:
                self._on_channel_data(channel, data)

        return SpdyReader(on_data, streams.on_control).feed, SpdyReader(on_data).feed

    def _on_channel_data(self, channel: int, data: bytes) -> None:
        if channel in (_STDOUT, _STDERR):
            self.cast.output(data)
        elif channel == _RESIZE:
            self.cast.resize(data)
        elif self._keep_input:
            self.cast.input(data)
