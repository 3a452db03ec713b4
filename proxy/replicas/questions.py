"""What replicas ask each other about themselves, as JSON: one question and one answer a stream.

Fields are only added; whoever reads passes over those that it does not know.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from fleet.streams import OpenStream, RecordingPart, StreamFilter
from proxy.domain.limits import Load

MOST_QUESTION = 1 << 20
MOST_ANSWER = 8 << 20


@dataclass(frozen=True, slots=True)
class AskStreams:
    """Which of these requests are under way? Answered by `STREAMS`."""

    wanted: StreamFilter
    ask: Literal["streams"] = "streams"


@dataclass(frozen=True, slots=True)
class AskEnd:
    """End this request, as `by` says. Answered by `ENDED`: whether there was one."""

    id: str
    by: str
    ask: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class AskRecording:
    """A part of the recording of this request. Answered by `PART`; null: it is not kept there."""

    id: str
    offset: int
    most: int
    ask: Literal["recording"] = "recording"


@dataclass(frozen=True, slots=True)
class AskLoads:
    """Who has much open there? Answered by `LOADS`, by name of the user."""

    ask: Literal["loads"] = "loads"


Question = AskStreams | AskEnd | AskRecording | AskLoads

QUESTION: TypeAdapter[Question] = TypeAdapter(Annotated[Question, Field(discriminator="ask")])
STREAMS = TypeAdapter(list[OpenStream])
ENDED = TypeAdapter(bool)
LOADS = TypeAdapter(dict[str, Load])
PART: TypeAdapter[RecordingPart | None] = TypeAdapter(RecordingPart | None)
