"""Git LFS pointers: small files that stand for large ones (git-lfs, docs/spec.md)."""

import re
from dataclasses import dataclass

MAX_POINTER = 1024
"""Maximum bytes of a pointer; larger files are ordinary files."""

_HEAD = b"version https://git-lfs.github.com/spec/v1\n"
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)
_SIZE = re.compile(rb"^size (\d{1,15})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Sha256 (hex) and size in bytes of the large file."""

    oid: str
    size: int


def parse_pointer(data: bytes) -> Pointer | None:
    """Parses a pointer; returns None for an ordinary file."""
    if len(data) >= MAX_POINTER or not data.startswith(_HEAD):
        return None
    oid, size = _OID.search(data), _SIZE.search(data)
    if oid is None or size is None:
        return None
    return Pointer(oid[1].decode(), int(size[1]))
