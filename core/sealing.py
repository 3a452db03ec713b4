"""Secrets that only one agent can decrypt, and their placeholders in bundles.

Sealed with HPKE (RFC 9180, base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
ChaCha20-Poly1305). The `info` binds a value to its name and to its service or command, so
that it cannot be opened in another place.

The placeholder of a value is `${towline.secret:NAME}`. Only Secrets may contain it: in `data`
as the whole value (this module adds the base64), in `stringData` anywhere in the text. The
agent fills placeholders in right before it calls the API server. It stores, hashes and reports
objects with placeholders only.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from core.errors import Invalid
from core.spec.bundle import KubeObject, describe_object
from core.spec.sealed_secrets import SealedSecret

PLACEHOLDER_PREFIX = b"${towline.secret:"
_PLACEHOLDER = re.compile(
    r"\$\{towline\.secret:([A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)\}"
)
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_PURPOSE = b"towline sealed secret 1"
_MASK = "***"
_MIN_MASKED_LENGTH = 4


class SealingKey:
    """An agent's key pair; the private key never leaves the agent."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> "SealingKey":
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, raw: bytes) -> "SealingKey":
        """Reads the key from 32 raw bytes. Raises Invalid for any other length."""
        if len(raw) != 32:
            raise Invalid(f"a sealing key has 32 bytes, not {len(raw)}")
        return cls(X25519PrivateKey.from_private_bytes(raw))

    @property
    def private(self) -> bytes:
        """The private key, 32 raw bytes; store it where only the agent can read it."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The public key, 32 raw bytes."""
        return self._key.public_key().public_bytes_raw()

    def fingerprint(self, state: str) -> str:
        """Hashes a secret with this key: equal secrets get equal names, only on this agent."""
        return hashlib.blake2b(state.encode(), key=self.private, digest_size=16).hexdigest()

    def open(self, secret: SealedSecret, owner: str) -> bytes:
        """Decrypts a secret of `owner`. Raises Invalid if it was sealed to another key or place."""
        try:
            return _SUITE.decrypt(secret.box, self._key, _info(owner, secret.name))
        except (InvalidTag, ValueError) as error:
            raise Invalid(
                f"cannot decrypt the secret {secret.name!r} with this agent's key: it was sealed "
                "to another key or for another place; restart the agent to get it again"
            ) from error


def seal(public: bytes, owner: str, name: str, version: str, plain: bytes) -> SealedSecret:
    """Seals a value to an agent's public key (32 raw bytes) for `owner`, a service or command id.

    Raises Invalid for a malformed key.
    """
    try:
        key = X25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise Invalid("the sealing key of an agent must have 32 bytes") from error
    return SealedSecret(name, version, _SUITE.encrypt(plain, key, _info(owner, name)))


def placeholder(name: str) -> str:
    """Makes the placeholder of a value. Raises Invalid for a malformed name."""
    text = f"${{towline.secret:{name}}}"
    if not _PLACEHOLDER.fullmatch(text):
        raise Invalid(f"{name!r} is not a secret name: use letters, digits, '.', '_' and '-'")
    return text


def is_placeholder(text: str) -> bool:
    """True if the whole text is one placeholder."""
    return _PLACEHOLDER.fullmatch(text) is not None


def mask_secrets(text: str, values: Iterable[str]) -> str:
    """Masks secret values, and the single lines of multi-line values, in a text.

    Keeps pieces shorter than four characters, which also occur in ordinary words.
    """
    for piece in sorted(_maskable_pieces(values), key=len, reverse=True):
        text = text.replace(piece, _MASK)
    return text


def _maskable_pieces(values: Iterable[str]) -> set[str]:
    pieces = set(values)
    pieces |= {line.strip() for value in pieces for line in value.splitlines()}
    return {text for text in pieces if len(text) >= _MIN_MASKED_LENGTH}


def placeholder_names(kube_object: KubeObject) -> frozenset[str]:
    """Returns the names of the placeholders in an object.

    Raises Invalid for a placeholder in a forbidden place. Objects without `PLACEHOLDER_PREFIX` in
    their bytes have no placeholders.
    """
    names: set[str] = set()
    for path, text in _strings_in(kube_object, ()):
        if PLACEHOLDER_PREFIX.decode() not in text:
            continue
        if not _may_contain_placeholder(kube_object, path, text):
            raise Invalid(
                f"{describe_object(kube_object)}: {'.'.join(path)} has a secret placeholder; "
                "use it only in a Secret, and in data only as the whole value"
            )
        names.update(_PLACEHOLDER.findall(text))
    return frozenset(names)


def fill_placeholders(kube_object: KubeObject, values: Mapping[str, bytes]) -> KubeObject:
    """Returns a copy of the object with its placeholders filled in.

    Raises Invalid for a missing value, a placeholder in a forbidden place, or a binary value in
    `stringData`.
    """
    if missing := placeholder_names(kube_object) - values.keys():
        raise Invalid(
            f"{describe_object(kube_object)} needs the secrets {', '.join(sorted(missing))}, "
            "which were not sent"
        )
    filled = dict(kube_object)
    if data := kube_object.get("data"):
        filled["data"] = {key: _fill_data(text, values) for key, text in data.items()}
    if texts := kube_object.get("stringData"):
        filled["stringData"] = {key: _fill_text(text, values) for key, text in texts.items()}
    return filled


def _may_contain_placeholder(kube_object: KubeObject, path: tuple[str, ...], text: str) -> bool:
    is_secret = kube_object.get("kind") == "Secret" and kube_object.get("apiVersion") == "v1"
    are_maps = all(isinstance(kube_object.get(part) or {}, dict) for part in ("data", "stringData"))
    if not is_secret or not are_maps or len(path) != 2:
        return False
    if path[0] == "data":
        return _PLACEHOLDER.fullmatch(text) is not None
    return path[0] == "stringData" and PLACEHOLDER_PREFIX.decode() not in _PLACEHOLDER.sub("", text)


def _fill_data(text: object, values: Mapping[str, bytes]) -> object:
    match = _PLACEHOLDER.fullmatch(text) if isinstance(text, str) else None
    return base64.b64encode(values[match[1]]).decode() if match else text


def _fill_text(text: object, values: Mapping[str, bytes]) -> object:
    if not isinstance(text, str):
        return text
    return _PLACEHOLDER.sub(lambda match: _as_text(match[1], values[match[1]]), text)


def _as_text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # Not chained: the original error contains the value.
        raise Invalid(
            f"the secret {name!r} is not UTF-8 text: use it in data instead of stringData"
        ) from None


def _strings_in(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the path and text of every string in an object, including map keys."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key, "(key)"), key
            yield from _strings_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings_in(inner, (*path, str(index)))


def _info(owner: str, name: str) -> bytes:
    return b"\0".join((_PURPOSE, owner.encode(), name.encode()))
