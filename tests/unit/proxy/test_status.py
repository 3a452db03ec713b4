"""`Status` objects in the encodings that Kubernetes' clients take."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.gateway.status import MAGIC, Encoding, encode_status, encoding_for

PROTOBUF = b"application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ([], Encoding.JSON),
        ([b"*/*"], Encoding.JSON),
        ([b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json"], Encoding.JSON),
        ([PROTOBUF + b", application/json"], Encoding.JSON),
        ([PROTOBUF, b"application/json"], Encoding.JSON),
        ([PROTOBUF], Encoding.PROTOBUF),
        ([PROTOBUF.upper() + b";stream=watch"], Encoding.PROTOBUF),
        ([b"application/yaml"], Encoding.YAML),
        ([b"text/html"], Encoding.JSON),
    ],
)
def test_the_encoding_is_the_one_asked_for(accept: list[bytes], encoding: Encoding) -> None:
    """JSON wherever it is taken."""
    assert encoding_for(accept) is encoding


def fields_of(data: bytes) -> dict[int, bytes | int]:
    """The fields of a protobuf message, by number; a decoder of its own."""
    found: dict[int, bytes | int] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            size = number()
            found[key >> 3] = data[at : at + size]
            at += size
    return found


@settings(deadline=None)
@given(st.integers(400, 599), st.text(max_size=300), st.text(max_size=300))
def test_every_encoding_says_the_same(code: int, reason: str, message: str) -> None:
    """Whatever a sentence has in it, it comes out as it went in."""
    expected = ("v1", "Status", "Failure", code, reason, message)
    names = ("apiVersion", "kind", "status", "code", "reason", "message")
    as_json = json.loads(encode_status(code, reason, message, Encoding.JSON))
    assert tuple(as_json[name] for name in names) == expected
    as_yaml = yaml.safe_load(encode_status(code, reason, message, Encoding.YAML))
    assert tuple(as_yaml[name] for name in names) == expected
    raw = encode_status(code, reason, message, Encoding.PROTOBUF)
    assert raw.startswith(MAGIC)
    unknown = fields_of(raw.removeprefix(MAGIC))
    assert isinstance(unknown[1], bytes) and isinstance(unknown[2], bytes)
    kind, status = fields_of(unknown[1]), fields_of(unknown[2])
    texts = (kind[1], kind[2], status[2], status[4], status[3])
    assert texts == tuple(t.encode() for t in ("v1", "Status", "Failure", reason, message))
    assert status[6] == code
