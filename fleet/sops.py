"""Values that SOPS has encrypted for age recipients (getsops.io, "Encryption Protocol", 3).

A tree's values are encrypted one by one: AES-256-GCM with a nonce of 32 bytes, the path of keys
authenticated. The key of a file is there for each recipient. Names stay readable.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleet.age import AgeIdentity
from fleet.errors import Invalid

MARK = b"ENC[AES256_GCM,"
METADATA = "sops"
_MOST_RECIPIENTS = 64
# For one recipient: what is for thousands takes minutes to be opened.
_MOST_KEY_CHARACTERS = 2048
_VALUE = re.compile(
    r"ENC\[AES256_GCM,data:([^,]*),iv:([^,]*),tag:([^,]*),type:(str|int|float|bool|bytes)\]"
)
_DEFAULT_RULE = ("unencrypted_suffix", "_unencrypted")
_RULES = ("unencrypted_suffix", "encrypted_suffix", "unencrypted_regex", "encrypted_regex")
_UNKNOWN_RULES = ("unencrypted_comment_regex", "encrypted_comment_regex")
_TYPES: Mapping[str, Callable[[bytes], Any]] = {
    "str": bytes.decode,
    "bytes": bytes.decode,
    "int": lambda plain: int(plain),
    "float": lambda plain: float(plain),
    "bool": lambda plain: {b"True": True, b"False": False, b"true": True, b"false": False}[plain],
}

Path = tuple[str, ...]
# Whether a pattern is found in a text; Invalid: it is none.
Search = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the key `sops` of a file says; `age` has the key of the file for each recipient."""

    modified: str
    mac: str
    age: Mapping[str, str]
    rules: Mapping[str, str]
    only_encrypted: bool

    @classmethod
    def of(cls, given: Any) -> "Metadata":
        """Invalid: it is not whole, or names what is not supported."""
        if not isinstance(given, dict):
            raise Invalid("it has no metadata of SOPS")
        if strange := [name for name in _UNKNOWN_RULES if given.get(name)]:
            raise Invalid(f"sops.{strange[0]} is not supported")
        if given.get("shamir_threshold") or given.get("key_groups"):
            raise Invalid("several key groups are not supported: use one")
        recipients = given.get("age") or []
        if not isinstance(recipients, list) or len(recipients) > _MOST_RECIPIENTS:
            raise Invalid("sops.age is no list of recipients")
        try:
            age = {str(recipient["recipient"]): str(recipient["enc"]) for recipient in recipients}
            rules = {name: str(given[name]) for name in _RULES if given.get(name)}
            if len(rules) > 1:
                raise Invalid(f"{' and '.join(rules)} exclude each other")
            only = given.get("mac_only_encrypted") is True
            return cls(str(given["lastmodified"]), str(given["mac"]), age, rules, only)
        except (KeyError, TypeError):
            raise Invalid("its metadata of SOPS are not whole") from None

    @property
    def rule(self) -> tuple[str, str]:
        """The kind of the file's rule, and what it asks of keys."""
        return next(iter(self.rules.items()), _DEFAULT_RULE)

    def names(self, key: str, search: Search) -> bool:
        """Whether the rule names a key, and with it all that is below."""
        kind, asked = self.rule
        return search(asked, key) if kind.endswith("_regex") else key.endswith(asked)

    def encrypts(self, *, named: bool) -> bool:
        """Whether values are encrypted that stand below a named key, or below none."""
        return named is self.rule[0].startswith("encrypted_")


class FileKey:
    """The key of one file. It has no repr of it."""

    def __init__(self, key: bytes) -> None:
        """Invalid: it has not 32 bytes."""
        if len(key) != 32:
            raise Invalid("its data key has not 32 bytes")
        self._key = AESGCM(key)

    def open(self, text: Any, bound: str) -> Any:
        """A value in the clear; `bound` is its place. Invalid: altered, moved or in the clear."""
        if text == "":
            return ""
        parts = _VALUE.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise Invalid(
                f"{bound.rstrip(':') or 'the code'} is not encrypted, though it should be"
            )
        try:
            sealed, nonce, tag = (
                base64.b64decode(part, validate=True) for part in parts.groups()[:3]
            )
            plain = self._key.decrypt(nonce, sealed + tag, bound.encode())
            return _TYPES[parts[4]](plain)
        except (InvalidTag, ValueError, KeyError):
            raise Invalid(f"{bound.rstrip(':')} does not open: it was altered or moved") from None


def key_for(age: Mapping[str, str], identities: Iterable[AgeIdentity]) -> FileKey | None:
    """The key of a file by whichever identity it is for; None: for none of them.

    Invalid: it does not open though.
    """
    for identity in identities:
        sealed = age.get(identity.recipient)
        if sealed is not None and len(sealed) > _MOST_KEY_CHARACTERS:
            raise Invalid(f"sops.age has a key for {identity.recipient} that is not for it alone")
        if sealed is not None:
            return FileKey(identity.open(sealed.encode()))
    return None


def place(path: Path) -> str:
    """What a value at a path of keys is bound to."""
    return "".join(f"{key}:" for key in path)
