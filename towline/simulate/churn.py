"""Recorded churn: the changes of a real cluster's objects, as an agent reports them.

A recording is a file of JSON lines. The first line has the format, the duration in seconds and the
number of objects. Each other line is a change: time, number of the object, kind
(`apps/v1/Deployment`), and health or deletion. It contains no names, namespaces or content.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from core.errors import Invalid
from core.json_object import JsonValue
from core.spec.health import HealthState

MAX_CHANGES = 200_000
_MAX_BYTES = 64 << 20
_STRICT = ConfigDict(frozen=True, extra="forbid")

Model = TypeVar("Model", bound=BaseModel)


def _parse_health(value: JsonValue) -> HealthState:
    if value not in HealthState.__members__ and not isinstance(value, HealthState):
        raise ValueError(f"one of {', '.join(HealthState.__members__)}")
    return value if isinstance(value, HealthState) else HealthState[value]


NamedHealth = Annotated[
    HealthState,
    BeforeValidator(_parse_health),
    PlainSerializer(lambda one: one.name, return_type=str),
]


class RecordedChange(BaseModel):
    """Change of one object, `at` seconds after the start."""

    model_config = _STRICT

    at: float = Field(ge=0, allow_inf_nan=False)
    object: int = Field(ge=0)
    kind: str = Field(max_length=200, pattern=r"^([a-z0-9.-]+/)?[a-z0-9]+/[A-Za-z0-9]+$")
    health: NamedHealth = HealthState.HEALTHY
    gone: bool = False


class _RecordingHeader(BaseModel):
    model_config = _STRICT

    recording: Literal["churn/1"] = "churn/1"
    seconds: float = Field(gt=0, le=86_400, allow_inf_nan=False)
    objects: int = Field(ge=0)


@dataclass(frozen=True, slots=True)
class ChurnRecording:
    """Changes ordered by time, and the number of objects at the end."""

    seconds: float
    objects: int
    changes: tuple[RecordedChange, ...]

    @property
    def rate(self) -> float:
        """Changes per second of one cluster."""
        return len(self.changes) / self.seconds


def lines_of(recording: ChurnRecording) -> Iterator[str]:
    """Formats the lines of a recording's file."""
    yield _RecordingHeader(seconds=recording.seconds, objects=recording.objects).model_dump_json()
    for change in recording.changes:
        yield change.model_dump_json(exclude_defaults=True)


def read(path: Path) -> ChurnRecording:
    """Reads a recording. Invalid: missing or malformed file; the message names the line."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise Invalid(f"{path} is larger than {_MAX_BYTES >> 20} MiB", field="churn")
        first, *change_lines = path.read_bytes().splitlines() or [b""]
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="churn") from error
    head = _parse_line(_RecordingHeader, path, 1, first)
    if not 0 < len(change_lines) <= MAX_CHANGES:
        raise Invalid(
            f"{path} has {len(change_lines)} changes; the limit is 1 to {MAX_CHANGES:,}",
            field="churn",
        )
    changes = [
        _parse_line(RecordedChange, path, number, line)
        for number, line in enumerate(change_lines, start=2)
    ]
    late = next((n for n, change in enumerate(changes, start=2) if change.at > head.seconds), None)
    if late is not None:
        raise Invalid(f"{path}, line {late}: after the end of the recording", field="churn")
    changes.sort(key=lambda change: change.at)
    return ChurnRecording(head.seconds, head.objects, tuple(changes))


def _parse_line(model: type[Model], path: Path, number: int, line: bytes) -> Model:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(map(str, details["loc"])) or "line"
        problem = f"{field_path}: {details['msg']}"
        message = f"{path}, line {number}: {problem}; is this a recording by record-churn?"
        raise Invalid(message, field="churn") from error
