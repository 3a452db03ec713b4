"""age files (C2SP age, version 1) for X25519 recipients: the only door to the library."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from fleet.errors import Invalid

# A compiled module that tells nothing of its types.
_age: Any = import_module("pyrage")
MARK = "AGE-SECRET-KEY-1"


class AgeIdentity:
    """A secret key that opens what was encrypted to its `recipient`. It has no repr of the key."""

    def __init__(self, text: str) -> None:
        """From `AGE-SECRET-KEY-1…`. Invalid: that is none."""
        try:
            self._key = _age.x25519.Identity.from_str(text.strip())
        except _age.IdentityError:
            raise Invalid(f"that is no age identity ({MARK}…)") from None

    @classmethod
    def generate(cls) -> "AgeIdentity":
        """A new one."""
        return cls(str(_age.x25519.Identity.generate()))

    @property
    def recipient(self) -> str:
        """The public key, `age1…`."""
        return str(self._key.to_public())

    @property
    def text(self) -> str:
        """The secret key, `AGE-SECRET-KEY-1…`."""
        return str(self._key)

    def open(self, data: bytes) -> bytes:
        """The content of an age file, armored or not. Invalid: not for this key, or altered."""
        try:
            return _age.decrypt(data, [self._key])
        except _age.DecryptError:
            raise Invalid(f"{self.recipient} does not open this age file") from None


def encrypt(data: bytes, recipients: Iterable[str], *, armored: bool = False) -> bytes:
    """An age file that each of the recipients (`age1…`) can open. Invalid: one is none."""
    try:
        keys = [_age.x25519.Recipient.from_str(one) for one in recipients]
    except _age.RecipientError:
        raise Invalid("that is no age recipient (age1…)") from None
    return _age.encrypt(data, keys, armored=armored)


def identities_in(text: str) -> list[AgeIdentity]:
    """The identities of a file as `age-keygen` writes it; comments are passed over."""
    return [AgeIdentity(line) for line in text.splitlines() if line.startswith(MARK)]
