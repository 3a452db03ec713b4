"""Envelope encryption: each secret has its own key, wrapped by a data key of the installation.

Sealed form: version (1 byte), id of the data key (8), wrapped key with nonce (12 + 32 + 16), nonce
(12), ciphertext and tag. Both layers are AES-256-GCM (NIST SP 800-38D). The context (`kind:id`) is
authenticated, so a sealed value that was copied to another row cannot be decrypted.
"""

import hashlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.errors import Invalid, TowlineError
from core.runtime.atomic_files import write_atomically
from core.sealing import SealingKey

_VERSION = b"\x01"
_ID = 8
_HEAD = 1 + _ID
_NONCE = 12
_MANIFEST_KEY = b"towline sealed values in manifests 1"
_WRAPPED = _NONCE + 32 + 16


class EnvelopeSealer:
    """Implements `KeyRing` over 32-byte keys; starts with the given key."""

    def __init__(self, key: bytes) -> None:
        self._id = key_id(key)
        self._keys = {self._id: AESGCM(key)}
        self._short_ids: dict[str, bytes] = {}
        # Not from a data key: a rebuilt installation has new ones, and its manifests stay.
        derived = HKDF(SHA256(), 32, None, _MANIFEST_KEY).derive(key)
        self.manifest_key = SealingKey.from_bytes(derived)

    def has_key(self, id: str) -> bool:
        return id in self._short_ids

    def add_key(self, id: str, key: bytes) -> None:
        short_id = key_id(key)
        self._short_ids[id] = short_id
        self._keys[short_id] = AESGCM(key)

    def seal_with(self, id: str) -> None:
        self._id = self._short_ids[id]

    def is_current(self, sealed: bytes) -> bool:
        return sealed[1:_HEAD] == self._id

    def seal(self, plain: bytes, context: str) -> bytes:
        associated_data = context.encode()
        value_key, wrap_nonce, nonce = secrets.token_bytes(32), os.urandom(12), os.urandom(12)
        wrapped = wrap_nonce + self._keys[self._id].encrypt(wrap_nonce, value_key, associated_data)
        return (
            _VERSION
            + self._id
            + wrapped
            + nonce
            + AESGCM(value_key).encrypt(nonce, plain, associated_data)
        )

    def open(self, sealed: bytes, context: str) -> bytes:
        data_key = self._keys.get(sealed[1:_HEAD])
        if sealed[:1] != _VERSION or data_key is None:
            raise TowlineError(
                "a secret was encrypted with another key: start with the key that belongs to "
                "this store"
            )
        wrapped, rest = sealed[_HEAD : _HEAD + _WRAPPED], sealed[_HEAD + _WRAPPED :]
        associated_data = context.encode()
        try:
            value_key = data_key.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], associated_data)
            return AESGCM(value_key).decrypt(rest[:_NONCE], rest[_NONCE:], associated_data)
        except (InvalidTag, ValueError) as error:
            raise TowlineError("a sealed secret was altered, or moved to another row") from error


def key_id(key: bytes) -> bytes:
    """Returns the id of a key in sealed values. Raises Invalid unless it has 32 bytes."""
    if len(key) != 32:
        raise Invalid(f"the encryption key has {len(key)} bytes; expected 32", field="key")
    return hashlib.sha256(key).digest()[:_ID]


def load_or_make_key(path: Path) -> bytes:
    """Reads the key in this file (32 bytes); creates it, readable by the owner only, if it is
    absent.

    An empty file counts as absent: nothing was ever encrypted with it.
    """
    if not path.exists() or path.stat().st_size == 0:
        write_atomically(path, secrets.token_bytes(32))
    return path.read_bytes()
