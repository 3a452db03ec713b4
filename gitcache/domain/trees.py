"""Parses git's tree objects."""

import re
from functools import cache
from typing import NamedTuple

from core.errors import Invalid

TREE = 0o040000
SYMLINK = 0o120000
SUBMODULE = 0o160000


class Entry(NamedTuple):
    """One entry of a tree: git's mode bits and the object id.

    A tuple, because a folder may have 10,000 entries and each commit parses them again.
    """

    mode: int
    id: str

    @property
    def is_tree(self) -> bool:
        return self.mode == TREE

    @property
    def is_file(self) -> bool:
        return self.mode & 0o170000 == 0o100000


@cache
def _entry_pattern(id_bytes: int) -> re.Pattern[bytes]:
    return re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{%d})" % id_bytes, re.DOTALL)


def parse_tree(data: bytes, id_bytes: int) -> dict[str, Entry]:
    """Parses a raw tree. Raises Invalid if it is malformed."""
    matches = _entry_pattern(id_bytes).findall(data)
    # Matches never overlap: they cover everything if their lengths add up to it.
    covered = sum(len(mode) + len(name) for mode, name, _ in matches) + len(matches) * (
        2 + id_bytes
    )
    if covered != len(data):
        raise Invalid("a tree of this commit is malformed")
    return {
        name.decode("utf-8", "surrogateescape"): Entry(_parse_mode(mode), raw_id.hex())
        for mode, name, raw_id in matches
    }


@cache
def _parse_mode(text: bytes) -> int:
    return int(text, 8)


def check_entry_name(name: str) -> None:
    """Raises Invalid for `.`, `..`, `.git` and names with a slash or without UTF-8."""
    if name in {".", ".."} or name.lower() == ".git" or "/" in name:
        raise Invalid(f"the commit contains a forbidden file name {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise Invalid("the commit contains a file name that is not UTF-8") from None
