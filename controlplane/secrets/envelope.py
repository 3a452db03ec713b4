"""Envelope encryption: each secret has its own data key, wrapped by the installation's key.

Sealed form: version (1 byte), key id (8), wrapped data key with nonce (12 + 32 + 16), nonce
(12), ciphertext and tag. AES-256-GCM (NIST SP 800-38D) both times; the context (`kind:id`) is
authenticated, so a sealed value copied to another row does not open.
"""

import hashlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleet.errors import Invalid, TowlineError
from fleet.runtime.files import write_whole

_VERSION = b"\x01"
_ID = 8
_NONCE = 12
_WRAPPED = _NONCE + 32 + 16


class EnvelopeSealer:
    """The `Sealer` port with a 32-byte key-encryption key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise Invalid(f"the encryption key has {len(key)} bytes, 32 are needed", field="key")
        self._id = hashlib.sha256(key).digest()[:_ID]
        self._kek = AESGCM(key)

    def seal(self, plain: bytes, context: str) -> bytes:
        bound = context.encode()
        data_key, wrap_nonce, nonce = secrets.token_bytes(32), os.urandom(12), os.urandom(12)
        wrapped = wrap_nonce + self._kek.encrypt(wrap_nonce, data_key, bound)
        return _VERSION + self._id + wrapped + nonce + AESGCM(data_key).encrypt(nonce, plain, bound)

    def open(self, sealed: bytes, context: str) -> bytes:
        head = 1 + _ID
        if sealed[:1] != _VERSION or sealed[1:head] != self._id:
            raise TowlineError(
                "a secret was sealed with another key: start with the key that this store "
                "was used with"
            )
        wrapped, rest = sealed[head : head + _WRAPPED], sealed[head + _WRAPPED :]
        bound = context.encode()
        try:
            data_key = self._kek.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], bound)
            return AESGCM(data_key).decrypt(rest[:_NONCE], rest[_NONCE:], bound)
        except InvalidTag as error:
            raise TowlineError("a sealed secret was altered, or moved to another row") from error


def load_or_make_key(path: Path) -> bytes:
    """The key in this file (32 bytes); a new one, readable by the owner only, if it is absent.

    An empty file is taken for absent: nothing was ever sealed with it.
    """
    if not path.exists() or path.stat().st_size == 0:
        write_whole(path, secrets.token_bytes(32))
    return path.read_bytes()
