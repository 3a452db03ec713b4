"""age files (C2SP age, version 1) for X25519 recipients: the only module that uses the library."""

from collections.abc import Iterable
from functools import cache
from typing import Any, BinaryIO

from core.errors import Invalid

IDENTITY_PREFIX = "AGE-SECRET-KEY-1"


@cache
def _library() -> Any:
    """Loads the untyped compiled library on first use; it costs memory."""
    import pyrage

    return pyrage


class AgeIdentity:
    """A secret key for data encrypted to its `recipient`; its repr does not show the key."""

    def __init__(self, text: str) -> None:
        """Parses `AGE-SECRET-KEY-1…`. Raises Invalid if the text is not a valid key."""
        try:
            self.key = _library().x25519.Identity.from_str(text.strip())
        except _library().IdentityError:
            raise Invalid(f"not an age identity; expected {IDENTITY_PREFIX}…") from None

    @classmethod
    def generate(cls) -> "AgeIdentity":
        """Generates a new identity."""
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
        """Decrypts an age file, armored or not.

        Raises Invalid if the file is for another key or was altered.
        """
        try:
            return _library().decrypt(data, [self.key])
        except _library().DecryptError:
            raise Invalid(f"the key of {self.recipient} cannot decrypt this age file") from None


def encrypt(data: bytes, recipients: Iterable[str], *, armored: bool = False) -> bytes:
    """Encrypts data to the recipients (`age1…`). Raises Invalid for a malformed recipient."""
    return _library().encrypt(data, _parse_recipients(recipients), armored=armored)


def encrypt_stream(source: BinaryIO, target: BinaryIO, recipients: Iterable[str]) -> None:
    """Encrypts a file too large for memory; see `encrypt`."""
    _library().encrypt_io(source, target, _parse_recipients(recipients))


def open_stream(source: BinaryIO, target: BinaryIO, identities: Iterable[AgeIdentity]) -> None:
    """Decrypts a file too large for memory with the first matching key."""
    try:
        _library().decrypt_io(source, target, [identity.key for identity in identities])
    except _library().DecryptError:
        raise Invalid("none of the given keys can decrypt this age file") from None


def _parse_recipients(recipients: Iterable[str]) -> list[object]:
    try:
        return [_library().x25519.Recipient.from_str(recipient) for recipient in recipients]
    except _library().RecipientError:
        raise Invalid(
            "a recipient is not a public key of age: age1… as `age-keygen -y` prints it"
        ) from None


def parse_identities(text: str) -> list[AgeIdentity]:
    """Reads the identities of a file in the format of `age-keygen`; skips comments."""
    return [AgeIdentity(line) for line in text.splitlines() if line.startswith(IDENTITY_PREFIX)]
