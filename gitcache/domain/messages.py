"""Repository states, renders and requests as JSON, for other replicas and the control plane.

What comes in is checked against the types of `fleet.source` and bounded.
"""

import struct
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fleet.errors import Invalid
from fleet.identity import RepositoryId
from fleet.source import Commit, Rendered, RenderRequest, RepositorySpec, RepositoryState

MAX_MESSAGE = 16 << 20
"""Bytes of one message; a state of 10,000 refs has about 3 MB."""

_LENGTH = struct.Struct(">I")
_BYTES_AS_TEXT = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

Value = TypeVar("Value")


class Message(Generic[Value]):
    """One type of value, to and from JSON."""

    def __init__(self, kind: type[Value]) -> None:
        # A configuration reaches dataclasses only from outside of them: hence the tuple.
        one: Any = types.GenericAlias(tuple, (kind,))
        self._adapter: TypeAdapter[tuple[Value]] = TypeAdapter(one, config=_BYTES_AS_TEXT)

    def encode(self, value: Value) -> bytes:
        """The JSON of a value."""
        return self._adapter.dump_json((value,))

    def decode(self, data: bytes) -> Value:
        """The value. Invalid: not this type's JSON; the text tells where, never what was there."""
        if len(data) > MAX_MESSAGE:
            raise Invalid(f"more than {MAX_MESSAGE:,} bytes in one message")
        try:
            return self._adapter.validate_json(data)[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise Invalid(f"odd message: {first['type']} at {where[:80] or 'its start'}") from None


@dataclass(frozen=True, slots=True)
class Hint:
    """What a webhook has announced: full ref to commit; None where it said nothing."""

    repository_id: RepositoryId
    announced: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Folders:
    """Which paths of a commit are asked for."""

    repository_id: RepositoryId
    commit: str
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Below:
    """Which folders of a commit are asked for: at most so many levels below a base."""

    repository_id: RepositoryId
    commit: str
    base: str
    depth: int


@dataclass(frozen=True, slots=True)
class Name:
    """A branch, tag or sha whose commit is asked for."""

    repository_id: RepositoryId
    name: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """Repositories to follow from now on, with credentials, and those to forget."""

    follow: tuple[RepositorySpec, ...] = ()
    forget: tuple[RepositoryId, ...] = ()


@dataclass(frozen=True, slots=True)
class Company:
    """Where a replica is reached (`host:port`), and where all of them are."""

    me: str
    members: tuple[str, ...]


STATE = Message(RepositoryState)
REQUEST = Message(RenderRequest)
RENDERED = Message(Rendered)
HINT = Message(Hint)
FOLDERS = Message(Folders)
BELOW = Message(Below)
NAME = Message(Name)
COMMIT = Message(Commit)
WISHES = Message(Wishes)
COMPANY = Message(Company)
TREES: Message[dict[str, str | None]] = Message(dict[str, str | None])
PATHS: Message[list[str]] = Message(list[str])
DIGESTS: Message[list[str]] = Message(list[str])


def join_contents(contents: Sequence[bytes]) -> bytes:
    """Several contents as one: each behind its length."""
    return b"".join(part for content in contents for part in (_LENGTH.pack(len(content)), content))


def split_contents(data: bytes) -> list[bytes]:
    """What `join_contents` has joined. Invalid: something else."""
    contents, position = [], 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise Invalid("contents that end within a length")
        position = start + _LENGTH.unpack_from(data, position)[0]
        if position > len(data):
            raise Invalid("contents that are cut off")
        contents.append(data[start:position])
    return contents
