"""Desired state as text on disk, with a checksum so that damaged state is never applied."""

import base64
import hashlib

from google.protobuf.message import DecodeError

from core.errors import Invalid
from core.spec.desired import Desired
from core.wire.codec import desired_from_message, desired_to_message
from core.wire.v1 import agent_pb2 as pb

_SUM = 64


def dump_desired(desired: Desired) -> str:
    """Encodes desired state as 64 hex digits of sha256, then its message in base64."""
    body = base64.b64encode(desired_to_message(desired).SerializeToString())
    return hashlib.sha256(body).hexdigest() + body.decode()


def load_desired(text: str) -> Desired:
    """Decodes desired state. Invalid: the text is damaged."""
    checksum, body = text[:_SUM], text[_SUM:].encode()
    if hashlib.sha256(body).hexdigest() != checksum:
        raise Invalid("desired state was damaged on disk")
    try:
        message = pb.Desired.FromString(base64.b64decode(body, validate=True))
        if not message.sequence and message.WhichOneof("state") is None:
            # A service that is only known from the labels of its objects.
            return Desired(message.service_id, 0)
        return desired_from_message(message)
    except (DecodeError, ValueError, Invalid) as error:
        raise Invalid(f"another version wrote this desired state: {error!r}") from error
