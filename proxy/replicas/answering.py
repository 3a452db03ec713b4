"""Server side of questions between replicas: answers from the state of this process."""

import structlog
from pydantic import ValidationError

from fleet.errors import NotFound, TowlineError
from fleet.mux.codec import END, PROTOCOL, Buffer
from fleet.mux.stream import Stream
from fleet.runtime.tasks import Tasks
from proxy.ports import Insight
from proxy.replicas.questions import (
    ENDED,
    LOADS,
    MOST_QUESTION,
    PART,
    QUESTION,
    STREAMS,
    AskEnd,
    AskLoads,
    AskRecording,
    AskStreams,
    Question,
)

log = structlog.get_logger(__name__)

UNAVAILABLE = 503


class Answers:
    """Handles the streams that carry questions."""

    def __init__(self, insight: Insight, tasks: Tasks) -> None:
        self._insight, self._tasks = insight, tasks

    def accept(self, stream: Stream) -> None:
        """Accepts the stream of a question whose bytes have not arrived yet."""
        stream.owner = _Asked(stream, self)

    def begin(self, stream: Stream, text: bytes) -> None:
        """Answers a question that has arrived completely."""
        self._tasks.spawn("answer", self._answer(stream, text))

    async def _answer(self, stream: Stream, text: bytes) -> None:
        try:
            answer = await self._find(QUESTION.validate_json(text))
        except ValidationError:
            stream.reset(PROTOCOL, "unknown question")
        except TowlineError as error:
            log.warning("question of another replica failed", why=error.message)
            stream.reset(UNAVAILABLE, error.message)
        else:
            stream.send(answer, END)

    async def _find(self, question: Question) -> bytes:
        match question:
            case AskStreams():
                return STREAMS.dump_json(self._insight.open_streams(question.wanted))
            case AskEnd():
                return ENDED.dump_json(self._insight.end_stream(question.id, question.by))
            case AskLoads():
                return LOADS.dump_json(dict(self._insight.loads()))
            case AskRecording():
                return await self._part(question)

    async def _part(self, question: AskRecording) -> bytes:
        try:
            asked = question.id, question.offset, question.most
            return PART.dump_json(await self._insight.recording(*asked))
        except NotFound:
            return PART.dump_json(None)


class _Asked:
    """Owner of the stream of one incoming question."""

    __slots__ = ("_answers", "_stream", "_text")

    def __init__(self, stream: Stream, answers: Answers) -> None:
        self._stream, self._answers = stream, answers
        self._text = bytearray()

    def on_data(self, data: Buffer) -> None:
        self._text += data
        self._stream.consumed(len(data))
        if len(self._text) > MOST_QUESTION:
            self._stream.reset(PROTOCOL, "the question is too long")

    def on_end(self, close: bool) -> None:
        self._answers.begin(self._stream, bytes(self._text))

    def on_writable(self) -> None:
        """Does nothing: the answer is sent in one piece."""

    def on_reset(self, code: int, text: str) -> None:
        """Does nothing: the other replica no longer waits for the answer."""
