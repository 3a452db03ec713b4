"""Values that SOPS has encrypted for age recipients (getsops.io, "Encryption Protocol", 3).

SOPS encrypts each value of a tree with AES-256-GCM, a nonce of 32 bytes and the key path as
authenticated data. Each recipient has an encrypted copy of the file key. Keys stay readable.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.age import AgeIdentity
from core.errors import Invalid
from core.json_object import JsonValue

ENCRYPTED_PREFIX = b"ENC[AES256_GCM,"
METADATA = "sops"
_MAX_RECIPIENTS = 64
# Enough for one recipient; a file key for thousands takes minutes to decrypt.
_MAX_KEY_CHARACTERS = 2048
_VALUE = re.compile(
    r"ENC\[AES256_GCM,data:([^,]*),iv:([^,]*),tag:([^,]*),type:(str|int|float|bool|bytes)\]"
)
_DEFAULT_RULE = ("unencrypted_suffix", "_unencrypted")
_RULES = ("unencrypted_suffix", "encrypted_suffix", "unencrypted_regex", "encrypted_regex")
_UNKNOWN_RULES = ("unencrypted_comment_regex", "encrypted_comment_regex")
_TYPES: Mapping[str, Callable[[bytes], object]] = {
    "str": bytes.decode,
    "bytes": bytes.decode,
    "int": lambda plain: int(plain),
    "float": lambda plain: float(plain),
    "bool": lambda plain: {b"True": True, b"False": False, b"true": True, b"false": False}[plain],
}

Path = tuple[str, ...]
# Searches a text for a pattern; raises Invalid for a malformed pattern.
Search = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class SopsMetadata:
    """The `sops` metadata of a file; `age` maps each recipient to the encrypted file key."""

    modified: str
    mac: str
    age: Mapping[str, str]
    rules: Mapping[str, str]
    only_encrypted: bool

    @classmethod
    def parse(cls, raw: JsonValue) -> "SopsMetadata":
        """Reads metadata. Raises Invalid if it is incomplete or uses unsupported features."""
        if not isinstance(raw, dict):
            raise Invalid("it has no SOPS metadata")
        if unsupported := [name for name in _UNKNOWN_RULES if raw.get(name)]:
            raise Invalid(f"sops.{unsupported[0]} is not supported")
        if raw.get("shamir_threshold") or raw.get("key_groups"):
            raise Invalid("multiple key groups are not supported; use one")
        recipients = raw.get("age") or []
        if not isinstance(recipients, list) or len(recipients) > _MAX_RECIPIENTS:
            raise Invalid("sops.age is not a list of at most 64 recipients")
        try:
            age = {str(recipient["recipient"]): str(recipient["enc"]) for recipient in recipients}
            rules = {name: str(raw[name]) for name in _RULES if raw.get(name)}
            if len(rules) > 1:
                raise Invalid(f"{' and '.join(rules)} exclude each other")
            only = raw.get("mac_only_encrypted") is True
            return cls(str(raw["lastmodified"]), str(raw["mac"]), age, rules, only)
        except (KeyError, TypeError):
            raise Invalid("its SOPS metadata is incomplete") from None

    @property
    def rule(self) -> tuple[str, str]:
        """Kind and argument of the file's encryption rule."""
        return next(iter(self.rules.items()), _DEFAULT_RULE)

    def matches_rule(self, key: str, search: Search) -> bool:
        """True if the rule matches a key, and so all values below it."""
        kind, argument = self.rule
        return search(argument, key) if kind.endswith("_regex") else key.endswith(argument)

    def is_encrypted(self, *, matches: bool) -> bool:
        """True if values below a matching key (or, if not `matches`, all others) are encrypted."""
        return matches is self.rule[0].startswith("encrypted_")


class SopsFileKey:
    """The data key of one file; its repr does not show the key."""

    def __init__(self, key: bytes) -> None:
        """Raises Invalid unless the key has 32 bytes."""
        if len(key) != 32:
            raise Invalid("its data key must have 32 bytes")
        self._key = AESGCM(key)

    def open(self, text: object, path: str) -> object:
        """Decrypts a value at `path`. Raises Invalid if altered, moved or unencrypted."""
        if text == "":
            return ""
        parts = _VALUE.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise Invalid(f"{path.rstrip(':') or 'the code'} is not encrypted, though it should be")
        try:
            sealed, nonce, tag = (
                base64.b64decode(part, validate=True) for part in parts.groups()[:3]
            )
            plain = self._key.decrypt(nonce, sealed + tag, path.encode())
            return _TYPES[parts[4]](plain)
        except (InvalidTag, ValueError, KeyError):
            raise Invalid(
                f"{path.rstrip(':')} cannot be decrypted: it was altered or moved"
            ) from None


def decrypt_file_key(
    age: Mapping[str, str], identities: Iterable[AgeIdentity]
) -> SopsFileKey | None:
    """Decrypts the file key with the first matching identity; None if none matches.

    Raises Invalid if the decryption fails.
    """
    for identity in identities:
        sealed = age.get(identity.recipient)
        if sealed is not None and len(sealed) > _MAX_KEY_CHARACTERS:
            raise Invalid(f"sops.age has an oversized key for {identity.recipient}")
        if sealed is not None:
            return SopsFileKey(identity.open(sealed.encode()))
    return None


def authenticated_path(path: Path) -> str:
    """Authenticated data of the value at a key path."""
    return "".join(f"{key}:" for key in path)
