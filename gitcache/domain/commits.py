"""Parses git's commit objects."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import Invalid
from core.spec.source import Commit

_MAX_TEXT = 300
_PERSON = re.compile(rb"(?P<who>.*?) ?(?P<time>-?\d+) [+-]\d{4}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit and the id of its root tree."""

    tree: str
    commit: Commit


def parse_commit(sha: str, data: bytes) -> CommitRecord:
    """Parses a raw commit. Raises Invalid if it has no tree."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        fields.setdefault(key, value)
    tree = fields.get(b"tree", b"").decode("ascii", "replace")
    if len(tree) != len(sha):
        raise Invalid(f"{sha} is not a commit")
    author, _ = _name_and_time(fields.get(b"author", b""))
    _, committed_at = _name_and_time(fields.get(b"committer", b""))
    subject = message.lstrip(b"\n").partition(b"\n")[0]
    return CommitRecord(tree, Commit(sha, author, _printable(subject), committed_at))


def _name_and_time(field: bytes) -> tuple[str, datetime]:
    match = _PERSON.fullmatch(field)
    if match is None:
        return _printable(field), datetime.fromtimestamp(0, UTC)
    try:
        time = datetime.fromtimestamp(int(match["time"]), UTC)
    except (ValueError, OverflowError, OSError):
        time = datetime.fromtimestamp(0, UTC)
    return _printable(match["who"]), time


def _printable(data: bytes) -> str:
    return "".join(
        char if char.isprintable() else " " for char in data.decode("utf-8", "replace")[:_MAX_TEXT]
    )
