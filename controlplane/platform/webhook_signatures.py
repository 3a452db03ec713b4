"""Signatures of webhooks, by the Standard Webhooks specification."""

import base64
import binascii
import hashlib
import hmac
from datetime import datetime
from typing import Final

from core.errors import Invalid

_PREFIX: Final = "whsec_"


def signature(secret: str, id: str, now: datetime, body: bytes) -> dict[str, str]:
    """Returns the three headers of Standard Webhooks."""
    timestamp = str(int(now.timestamp()))
    payload = b".".join((id.encode(), timestamp.encode(), body))
    digest = hmac.new(decode_webhook_secret(secret), payload, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def decode_webhook_secret(secret: str) -> bytes:
    """Decodes a secret `whsec_<base64>`. Raises Invalid unless it has 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise Invalid("must be whsec_ and base64 of 24 to 64 bytes", field="secret")
    return key


def new_secret(random: bytes) -> str:
    """Creates a signing secret of 32 random bytes."""
    return _PREFIX + base64.b64encode(random).decode()
