"""Messages between the git cache and its workers: a JSON header, then named blobs.

No pickle, because data from workers is not trusted.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from core.json_object import JsonMapping

LENGTH = struct.Struct(">I")
MAX_HEADER = 8 << 20


class BadMessage(ValueError):
    """A malformed message, or one beyond the limits."""


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """A JSON object, and bytes by name."""

    fields: JsonMapping
    blobs: Mapping[str, bytes]


def encode(fields: JsonMapping, blobs: Mapping[str, bytes] | None = None) -> bytes:
    """Encodes a message: length of the header, header, blobs in the header's order."""
    blobs = blobs or {}
    sizes = [[name, len(data)] for name, data in blobs.items()]
    header = orjson.dumps({"fields": dict(fields), "blobs": sizes})
    return b"".join([LENGTH.pack(len(header)), header, *blobs.values()])


def header_length(prefix: bytes) -> int:
    """Decodes the length of the header. Raises BadMessage beyond the limit."""
    (length,) = LENGTH.unpack(prefix)
    if length > MAX_HEADER:
        raise BadMessage(f"a header of {length} bytes")
    return length


def parse_header(
    data: bytes, max_bytes: int
) -> tuple[Mapping[str, object], Sequence[tuple[str, int]]]:
    """Decodes fields, and name and size of each blob. Raises BadMessage."""
    try:
        header = orjson.loads(data)
        sizes = [(str(name), int(size)) for name, size in header["blobs"]]
        fields = dict(header["fields"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadMessage("no header") from error
    if any(size < 0 for _, size in sizes) or sum(size for _, size in sizes) > max_bytes:
        raise BadMessage("blobs beyond the limit")
    return fields, sizes
