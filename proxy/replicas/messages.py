"""Messages between replicas in JSON: one request and one response for each stream.
Versions only add fields, and readers ignore unknown ones.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.open_streams import OpenStream, RecordingPart, StreamFilter
from proxy.domain.limits import Load

MAX_QUESTION = 1 << 20
MAX_ANSWER = 8 << 20


@dataclass(frozen=True, slots=True)
class ListStreams:
    """Asks for the open requests that match a filter. Answer: `STREAMS`."""

    wanted: StreamFilter
    ask: Literal["streams"] = "streams"


@dataclass(frozen=True, slots=True)
class EndStream:
    """Asks to end a request on behalf of `by`. Answer: `ENDED`, False if there was none."""

    id: str
    by: str
    ask: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class ReadRecording:
    """Asks for a part of a recording. Answer: `PART`, null if it is not stored there."""

    id: str
    offset: int
    most: int
    ask: Literal["recording"] = "recording"


@dataclass(frozen=True, slots=True)
class ListLoads:
    """Asks for the loads of users. Answer: `LOADS` by user name."""

    ask: Literal["loads"] = "loads"


Question = ListStreams | EndStream | ReadRecording | ListLoads

QUESTION: TypeAdapter[Question] = TypeAdapter(Annotated[Question, Field(discriminator="ask")])
STREAMS = TypeAdapter(list[OpenStream])
ENDED = TypeAdapter(bool)
LOADS = TypeAdapter(dict[str, Load])
PART: TypeAdapter[RecordingPart | None] = TypeAdapter(RecordingPart | None)
