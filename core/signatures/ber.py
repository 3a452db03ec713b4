"""Values of ASN.1 in BER (ITU-T X.690), also with the indefinite lengths that GnuPG writes.

`cryptography` reads DER only. This module splits values, and decides nothing about them.
"""

from dataclasses import dataclass

from core.errors import Invalid

INTEGER, OCTET_STRING, OBJECT_ID, UTC_TIME, GENERALIZED_TIME = 0x02, 0x04, 0x06, 0x17, 0x18
SEQUENCE, SET = 0x30, 0x31
_CONSTRUCTED, _INDEFINITE, _END = 0x20, 0x80, b"\0\0"
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class BerValue:
    """A value: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    raw: bytes

    def split(self) -> "list[BerValue]":
        """Splits the content of a constructed value. Raises Invalid."""
        return read_values(self.content)


def read_values(data: bytes) -> list[BerValue]:
    """Splits bytes into values. Raises Invalid."""
    values, position = list[BerValue](), 0
    while position < len(data):
        value, position = _read_value(data, position, 0)
        values.append(value)
    return values


def _read_value(data: bytes, position: int, depth: int) -> tuple[BerValue, int]:
    """Returns the value at a position, and the position after it."""
    if depth > _MAX_DEPTH or position + 2 > len(data) or data[position] & 0x1F == 0x1F:
        raise _malformed()
    tag, size, start = data[position], data[position + 1], position + 2
    if size == _INDEFINITE:
        if not tag & _CONSTRUCTED:
            raise _malformed()
        end = start
        while data[end : end + 2] != _END:
            _, end = _read_value(data, end, depth + 1)
        return BerValue(tag, data[start:end], data[position : end + 2]), end + 2
    if size > _INDEFINITE:
        digits = size - _INDEFINITE
        size, start = int.from_bytes(data[start : start + digits]), start + digits
    end = start + size
    if end > len(data):
        raise _malformed()
    return BerValue(tag, data[start:end], data[position:end]), end


def _malformed() -> Invalid:
    return Invalid("a value of ASN.1 is malformed")
