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
    """Lists the open requests that match a filter. Response: `STREAMS`."""

    wanted: StreamFilter
    ask: Literal["streams"] = "streams"


@dataclass(frozen=True, slots=True)
class EndStream:
    """Ends a request on behalf of `by`. Response: `ENDED`, False if there was none."""

    id: str
    by: str
    ask: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class ReadRecording:
    """Reads a part of a recording. Response: `PART`, null if it is not stored there."""

    id: str
    offset: int
    most: int
    ask: Literal["recording"] = "recording"


@dataclass(frozen=True, slots=True)
class ListLoads:
    """Reads the loads of users and projects. Response: `LOADS` by name."""

    ask: Literal["loads"] = "loads"


Question = ListStreams | EndStream | ReadRecording | ListLoads

QUESTION: TypeAdapter[Question] = TypeAdapter(Annotated[Question, Field(discriminator="ask")])
STREAMS = TypeAdapter(list[OpenStream])
ENDED = TypeAdapter(bool)
LOADS = TypeAdapter(dict[str, Load])
PART: TypeAdapter[RecordingPart | None] = TypeAdapter(RecordingPart | None)
