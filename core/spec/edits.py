"""Edits of files in git, and merge requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class PutFile:
    """Creates or replaces a file."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Deletes a file or folder."""

    path: str


@dataclass(frozen=True, slots=True)
class CopyFolder:
    """Copies a folder."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class SetField:
    """Changes an existing field; `document` is the index, from 0, of the YAML document."""

    path: str
    field: Sequence[str | int]
    value: Scalar
    document: int = 0


@dataclass(frozen=True, slots=True)
class SetImage:
    """Changes the tag of an image wherever a file names the image.

    Covers `image: shop:1` of a container, `name` (or `newName`) with `newTag` of a
    kustomization, and `repository` with `tag` of a chart's values.
    """

    path: str
    image: str
    tag: str


Edit = PutFile | DeleteFile | CopyFolder | SetField | SetImage


class MergeRequestState(StrEnum):
    """State of a merge request."""

    OPEN = "OPEN"
    MERGED = "MERGED"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A pull or merge request; `merged` is its merge commit, None before the merge."""

    number: int
    url: str
    state: MergeRequestState
    merged: str | None = None


@dataclass(frozen=True, slots=True)
class OpenMergeRequest:
    """An open pull or merge request."""

    number: int
    branch: str
    sha: str
    updated_at: datetime
    base: str = ""
    """Branch that the request would change."""
    title: str = ""
    labels: tuple[str, ...] = ()
    forked: bool = False
    """Its branch is in another repository."""
