"""Values of what goes back to git: edits of files, and requests to merge them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class PutFile:
    """Have a file with this content, made or replaced."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Have no file (or folder) of this name."""

    path: str


@dataclass(frozen=True, slots=True)
class CopyFolder:
    """Have a folder with what another one holds."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class SetField:
    """Give a field that is there another value; `document` counts from 0 in its file."""

    path: str
    field: Sequence[str | int]
    value: Scalar
    document: int = 0


@dataclass(frozen=True, slots=True)
class SetImage:
    """Run another tag of an image wherever a file names it.

    That is `image: shop:1` of a container, `name` (or `newName`) with `newTag` of a
    kustomization, and `repository` with `tag` of a chart's values.
    """

    path: str
    image: str
    tag: str


Edit = PutFile | DeleteFile | CopyFolder | SetField | SetImage


class RequestState(StrEnum):
    """What has become of a request."""

    OPEN = "OPEN"
    MERGED = "MERGED"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A pull or merge request; `merged` is the commit it became, once it has."""

    number: int
    url: str
    state: RequestState
    merged: str | None = None
