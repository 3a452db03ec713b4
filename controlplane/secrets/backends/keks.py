"""Key-encryption keys that this process holds itself: 32 bytes, or an age identity."""

import base64
import binascii
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from controlplane.secrets.backends.envelope import key_id
from controlplane.secrets.ports import KeyEncryption
from core.age import IDENTITY_PREFIX, AgeIdentity, encrypt, parse_identities
from core.errors import Invalid

_NONCE = 12


class LocalKek(KeyEncryption):
    """Key encryption with a 32-byte key: AES-256-GCM, the context authenticated."""

    def __init__(self, key: bytes) -> None:
        self.name = f"local:{key_id(key).hex()}"
        self._key = AESGCM(key)

    async def wrap(self, key: bytes, context: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._key.encrypt(nonce, key, context.encode())

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        try:
            return self._key.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], context.encode())
        except (InvalidTag, ValueError):
            raise Invalid(f"{self.name} did not wrap this key, or it was altered") from None


class AgeKek(KeyEncryption):
    """Key encryption with an age X25519 identity (C2SP age, v1).

    age authenticates no context, so the context precedes the key in the plain text.
    """

    def __init__(self, identity: str) -> None:
        self._identity = AgeIdentity(identity)
        self.name = f"age:{self._identity.recipient}"

    async def wrap(self, key: bytes, context: str) -> bytes:
        return encrypt(context.encode() + b"\0" + key, [self._identity.recipient])

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        bound_context, _, key = self._identity.open(wrapped).partition(b"\0")
        if bound_context != context.encode():
            raise Invalid(f"{self.name} did not wrap this key, or it was altered")
        return key


def key_of(text: str) -> bytes:
    """Decodes a key from base64. Raises Invalid unless it has 32 bytes."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise Invalid("the key-encryption key is not 32 bytes in base64", field="value")
    return key


def age_identity(path: Path) -> str:
    """Returns the first identity of a file from `age-keygen`. Raises Invalid if there is none."""
    try:
        identities = parse_identities(path.read_text())
    except (OSError, UnicodeDecodeError):
        raise Invalid(f"{path} cannot be read as an age identity file") from None
    if not identities:
        raise Invalid(f"{path} holds no age identity ({IDENTITY_PREFIX}…)")
    return identities[0].text
