"""age files (C2SP age, version 1) for X25519 recipients: the only door to the library."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO

from fleet.errors import Invalid

MARK = "AGE-SECRET-KEY-1"


@cache
def _library() -> Any:
    """A compiled module that tells nothing of its types; only who meets an age file loads it."""
    return import_module("pyrage")


class AgeIdentity:
    """A secret key that opens what was encrypted to its `recipient`. It has no repr of the key."""

    def __init__(self, text: str) -> None:
        """From `AGE-SECRET-KEY-1…`. Invalid: that is none."""
        try:
            self.key = _library().x25519.Identity.from_str(text.strip())
        except _library().IdentityError:
            raise Invalid(f"that is no age identity ({MARK}…)") from None

    @classmethod
    def generate(cls) -> "AgeIdentity":
        """A new one."""
        return cls(str(_library().x25519.Identity.generate()))

    @property
    def recipient(self) -> str:
        """The public key, `age1…`."""
        return str(self.key.to_public())

    @property
    def text(self) -> str:
        """The secret key, `AGE-SECRET-KEY-1…`."""
        return str(self.key)

    def open(self, data: bytes) -> bytes:
        """The content of an age file, armored or not. Invalid: not for this key, or altered."""
        try:
            return _library().decrypt(data, [self.key])
        except _library().DecryptError:
            raise Invalid(f"{self.recipient} does not open this age file") from None


def encrypt(data: bytes, recipients: Iterable[str], *, armored: bool = False) -> bytes:
    """An age file that each of the recipients (`age1…`) can open. Invalid: one is none."""
    return _library().encrypt(data, _keys(recipients), armored=armored)


def encrypt_stream(source: BinaryIO, into: BinaryIO, recipients: Iterable[str]) -> None:
    """`encrypt` for what is too large for memory."""
    _library().encrypt_io(source, into, _keys(recipients))


def open_stream(source: BinaryIO, into: BinaryIO, identities: Iterable[AgeIdentity]) -> None:
    """`AgeIdentity.open` for what is too large for memory, by whichever of the keys fits."""
    try:
        _library().decrypt_io(source, into, [identity.key for identity in identities])
    except _library().DecryptError:
        raise Invalid("none of the keys given opens this age file") from None


def _keys(recipients: Iterable[str]) -> list[Any]:
    try:
        return [_library().x25519.Recipient.from_str(recipient) for recipient in recipients]
    except _library().RecipientError:
        raise Invalid("that is no age recipient (age1…)") from None


def identities_in(text: str) -> list[AgeIdentity]:
    """The identities of a file as `age-keygen` writes it; comments are passed over."""
    return [AgeIdentity(line) for line in text.splitlines() if line.startswith(MARK)]
