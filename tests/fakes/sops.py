"""Values as SOPS writes them, by the published description of its format."""

import base64
import os
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.age import AgeIdentity, encrypt

IDENTITY = AgeIdentity.generate()
MODIFIED = "2026-01-02T03:04:05Z"
_KEY = bytes(range(32))
_SEALED_KEY = encrypt(_KEY, [IDENTITY.recipient], armored=True).decode()
_WORDS = {str: "str", int: "int", float: "float", bool: "bool"}


def sealed(value: Any, bound: str) -> str:
    """A value that is bound to its place, such as `data:password:`."""
    plain = str(value) if not isinstance(value, float) else go_float(value)
    nonce = os.urandom(32)
    box = AESGCM(_KEY).encrypt(nonce, plain.encode(), bound.encode())
    data, iv, tag = (base64.b64encode(one).decode() for one in (box[:-16], nonce, box[-16:]))
    return f"ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{_WORDS[type(value)]}]"


def go_float(value: float) -> str:
    """A number as Go writes it."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


def metadata(code: str, **more: Any) -> dict[str, Any]:
    """Value of the key `sops`; `code` is what authenticates the file."""
    recipient = {"recipient": IDENTITY.recipient, "enc": _SEALED_KEY}
    mac = sealed(code, MODIFIED)
    return {"age": [recipient], "lastmodified": MODIFIED, "mac": mac, "version": "3.9.0"} | more
