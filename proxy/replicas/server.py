"""Server side of requests between replicas: responds from the state of this process."""

import structlog
from pydantic import ValidationError

from core.errors import NotFound, TowlineError
from core.mux.codec import END, PROTOCOL, Buffer
from core.mux.stream import TunnelStream
from core.runtime.tasks import Tasks
from proxy.ports import RequestInspector
from proxy.replicas.messages import (
    ENDED,
    LOADS,
    MAX_QUESTION,
    PART,
    QUESTION,
    STREAMS,
    EndStream,
    ListLoads,
    ListStreams,
    Question,
    ReadRecording,
)

log = structlog.get_logger(__name__)

UNAVAILABLE = 503


class QuestionServer:
    """Handles the streams that carry requests."""

    def __init__(self, inspector: RequestInspector, tasks: Tasks) -> None:
        self._inspector, self._tasks = inspector, tasks

    def accept(self, stream: TunnelStream) -> None:
        """Accepts the stream of a request whose bytes have not arrived yet."""
        stream.owner = _QuestionStream(stream, self)

    def begin(self, stream: TunnelStream, text: bytes) -> None:
        """Responds to a request that has arrived completely."""
        self._tasks.spawn("answer", self._answer(stream, text))

    async def _answer(self, stream: TunnelStream, text: bytes) -> None:
        try:
            answer = await self._answer_to(QUESTION.validate_json(text))
        except ValidationError:
            stream.reset(PROTOCOL, "unknown question")
        except TowlineError as error:
            log.warning("question of another replica failed", why=error.message)
            stream.reset(UNAVAILABLE, error.message)
        else:
            stream.send(answer, END)

    async def _answer_to(self, question: Question) -> bytes:
        match question:
            case ListStreams():
                return STREAMS.dump_json(self._inspector.open_streams(question.wanted))
            case EndStream():
                return ENDED.dump_json(self._inspector.end_stream(question.id, question.by))
            case ListLoads():
                return LOADS.dump_json(dict(self._inspector.loads()))
            case ReadRecording():
                return await self._recording_part(question)

    async def _recording_part(self, question: ReadRecording) -> bytes:
        try:
            arguments = question.id, question.offset, question.most
            return PART.dump_json(await self._inspector.recording(*arguments))
        except NotFound:
            return PART.dump_json(None)


class _QuestionStream:
    """Owner of the stream of one incoming request."""

    __slots__ = ("_answers", "_stream", "_text")

    def __init__(self, stream: TunnelStream, answers: QuestionServer) -> None:
        self._stream, self._answers = stream, answers
        self._text = bytearray()

    def on_data(self, data: Buffer) -> None:
        self._text += data
        self._stream.consumed(len(data))
        if len(self._text) > MAX_QUESTION:
            self._stream.reset(PROTOCOL, "the question is too long")

    def on_end(self, close: bool) -> None:
        self._answers.begin(self._stream, bytes(self._text))

    def on_writable(self) -> None:
        """Does nothing: the answer is sent in one piece."""

    def on_reset(self, code: int, text: str) -> None:
        """Does nothing: the other replica no longer waits for the answer."""
