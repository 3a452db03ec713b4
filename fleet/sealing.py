"""Secrets that only one agent can open, and how the objects of a bundle name them.

Sealed with HPKE (RFC 9180, base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
ChaCha20-Poly1305). The service, or the command, that a value is for and the value's name are
bound to it (as `info`), so that a box which was moved to another place does not open.

A bundle names a sealed value by `${towline.secret:NAME}`. Only values of a Secret may: in `data`
as the whole value (the base64 is made here), in `stringData` anywhere in the text. The agent
fills them in right before it speaks to the API server; what it keeps, hashes and reports is the
object with its placeholders.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from fleet.bundle import describe
from fleet.errors import Invalid

KubeObject = dict[str, Any]

MARK = b"${towline.secret:"
_NAMED = re.compile(r"\$\{towline\.secret:([A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)\}")
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_PURPOSE = b"towline sealed secret 1"
_MASK = "***"
_SHORTEST_MASKED = 4


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A value in its box; `version` changes when and only when the plain value does."""

    name: str
    version: str
    box: bytes


class SealingKey:
    """An agent's key pair; the private half never leaves it."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> "SealingKey":
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, raw: bytes) -> "SealingKey":
        """From 32 raw bytes. Invalid: another number of bytes."""
        if len(raw) != 32:
            raise Invalid(f"a sealing key has 32 bytes, not {len(raw)}")
        return cls(X25519PrivateKey.from_private_bytes(raw))

    @property
    def private(self) -> bytes:
        """32 raw bytes, to be kept where only the agent reads."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """32 raw bytes, for everyone."""
        return self._key.public_key().public_bytes_raw()

    def name(self, state: str) -> str:
        """A short name of something secret: equal things, equal names, told apart only here."""
        return hashlib.blake2b(state.encode(), key=self.private, digest_size=16).hexdigest()

    def open(self, secret: SealedSecret, owner: str) -> bytes:
        """The plain value of a secret for `owner`. Invalid: sealed to another key or place."""
        try:
            return _SUITE.decrypt(secret.box, self._key, _place(owner, secret.name))
        except (InvalidTag, ValueError) as error:
            raise Invalid(
                f"the secret {secret.name!r} does not open with this agent's key: it was sealed "
                "to another key or for another place; it comes anew when the agent connects"
            ) from error


def seal(public: bytes, owner: str, name: str, version: str, plain: bytes) -> SealedSecret:
    """Seal a value to an agent's public key (32 raw bytes) for `owner`, a service or command id.

    Invalid: that is not a key.
    """
    try:
        key = X25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise Invalid("an agent's sealing key has 32 bytes") from error
    return SealedSecret(name, version, _SUITE.encrypt(plain, key, _place(owner, name)))


def placeholder(name: str) -> str:
    """How a bundle names the value. Invalid: not a name."""
    text = f"${{towline.secret:{name}}}"
    if not _NAMED.fullmatch(text):
        raise Invalid(f"{name!r} is not a name of a secret: letters, digits, '.', '_' and '-'")
    return text


def is_placeholder(text: str) -> bool:
    """Whether a text is the placeholder of a value and nothing else."""
    return _NAMED.fullmatch(text) is not None


def masked(text: str, values: Iterable[str]) -> str:
    """The text without the values of secrets, and without the lines of those that have several.

    Pieces shorter than four characters stay: they are found in ordinary words.
    """
    for piece in sorted(_pieces(values), key=len, reverse=True):
        text = text.replace(piece, _MASK)
    return text


def _pieces(values: Iterable[str]) -> set[str]:
    found = set(values)
    found |= {line.strip() for value in found for line in value.splitlines()}
    return {piece for piece in found if len(piece) >= _SHORTEST_MASKED}


def names_in(one: KubeObject) -> frozenset[str]:
    """Names of the sealed values that an object needs. Invalid: named where none may be.

    Whether an object needs any shows in its bytes: `MARK` is in them.
    """
    needed: set[str] = set()
    for path, text in _texts(one, ()):
        if MARK.decode() not in text:
            continue
        if not _may_hold(one, path, text):
            raise Invalid(
                f"{describe(one)}: {'.'.join(path)} names a secret; only values of a Secret may, "
                "in data as the whole value"
            )
        needed.update(_NAMED.findall(text))
    return frozenset(needed)


def fill(one: KubeObject, values: Mapping[str, bytes]) -> KubeObject:
    """A copy of the object with its placeholders filled in; the object itself is left as it is.

    Invalid: a value is missing, is named where none may be, or is no text but stands in one.
    """
    if missing := names_in(one) - values.keys():
        raise Invalid(f"{describe(one)} needs the secrets {', '.join(sorted(missing))}: not given")
    filled = dict(one)
    if data := one.get("data"):
        filled["data"] = {key: _filled_data(text, values) for key, text in data.items()}
    if texts := one.get("stringData"):
        filled["stringData"] = {key: _filled_text(text, values) for key, text in texts.items()}
    return filled


def _may_hold(one: KubeObject, path: tuple[str, ...], text: str) -> bool:
    is_secret = one.get("kind") == "Secret" and one.get("apiVersion") == "v1"
    are_maps = all(isinstance(one.get(part) or {}, dict) for part in ("data", "stringData"))
    if not is_secret or not are_maps or len(path) != 2:
        return False
    if path[0] == "data":
        return _NAMED.fullmatch(text) is not None
    return path[0] == "stringData" and MARK.decode() not in _NAMED.sub("", text)


def _filled_data(text: Any, values: Mapping[str, bytes]) -> Any:
    named = _NAMED.fullmatch(text) if isinstance(text, str) else None
    return base64.b64encode(values[named[1]]).decode() if named else text


def _filled_text(text: Any, values: Mapping[str, bytes]) -> Any:
    if not isinstance(text, str):
        return text
    return _NAMED.sub(lambda named: _as_text(named[1], values[named[1]]), text)


def _as_text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        # Not chained: the error holds the value.
        raise Invalid(
            f"the secret {name!r} is no text: name it in data, not in stringData"
        ) from None


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text in an object, keys of maps as well, and where it stands."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key, "(key)"), key
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, str(index)))


def _place(owner: str, name: str) -> bytes:
    return b"\0".join((_PURPOSE, owner.encode(), name.encode()))
