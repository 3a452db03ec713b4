"""Kubernetes' `Status` object (meta/v1) in the encoding that the client accepts.
The default is JSON; protobuf or YAML only for clients that accept nothing else. The protobuf is a
`runtime.Unknown` around a `Status`, after Kubernetes' magic bytes.
"""

from enum import Enum

import orjson

MAGIC = b"k8s\x00"
_JSON = frozenset({"*/*", "application/*", "application/json"})


class Encoding(Enum):
    """Encoding of a `Status`; the value is its media type."""

    JSON = "application/json"
    PROTOBUF = "application/vnd.kubernetes.protobuf"
    YAML = "application/yaml"


def encoding_for(accept: list[bytes]) -> Encoding:
    """Chooses the encoding of a response from the values of the Accept fields."""
    offered = b",".join(accept).decode("latin-1").lower().split(",")
    types = [offer.partition(";")[0].strip() for offer in offered]
    if _JSON.intersection(types):
        return Encoding.JSON
    accepted = (encoding for encoding in Encoding if encoding.value in types)
    return next(accepted, Encoding.JSON)


def encode_status(code: int, reason: str, message: str, encoding: Encoding) -> bytes:
    """Encodes a `Status` of `Failure`."""
    if encoding is Encoding.PROTOBUF:
        return _protobuf(code, reason, message)
    fields: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if encoding is Encoding.YAML:
        return b"".join(b"%s: %s\n" % (key.encode(), _yaml_flow(fields[key])) for key in fields)
    return orjson.dumps(fields)


def _yaml_flow(value: object) -> bytes:
    """Encodes a YAML flow value: JSON with the characters escaped that YAML does not allow."""
    json_text = orjson.dumps(value).decode()
    return "".join(
        char if char.isprintable() else f"\\U{ord(char):08x}" for char in json_text
    ).encode()


def _protobuf(code: int, reason: str, message: str) -> bytes:
    status = (
        _bytes(1, b"")
        + _bytes(2, b"Failure")
        + _bytes(3, message.encode())
        + _bytes(4, reason.encode())
        + b"\x30"
        + _varint(code)
    )
    kind = _bytes(1, b"v1") + _bytes(2, b"Status")
    return MAGIC + _bytes(1, kind) + _bytes(2, status) + _bytes(3, b"") + _bytes(4, b"")


def _bytes(number: int, value: bytes) -> bytes:
    """Encodes a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
