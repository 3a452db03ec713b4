"""Secrets encrypted with SOPS: objects with placeholders, and their encrypted values beside them.
The agent stores, hashes and reports the object with placeholders, as it does for values sealed to
the agent. It cannot check the file's message authentication code, which covers the order of the
file: a bundle has no such order. Each value is bound to its field; the rest is plain text.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core.errors import Invalid
from core.sealing import placeholder
from core.sops import ENCRYPTED_PREFIX, METADATA, SopsFileKey, SopsMetadata, authenticated_path
from core.spec.bundle import describe_object
from syncagent.domain.field_change import is_secret
from syncagent.domain.objects import KubeObject

_PLACES = ("data", "stringData")
_NAMES = re.compile(r"\^?\(?[\w.|-]{1,128}\)?\$?")


@dataclass(frozen=True, slots=True)
class EncryptedValue:
    """A value encrypted by SOPS, bound to `authenticated_path`; `keys` holds the file's key for
    each age recipient. `version` changes with the encrypted text. `in_base64`: the decrypted value
    is base64.
    """

    name: str
    version: str
    text: str
    place: str
    keys: Mapping[str, str]
    in_base64: bool

    def open(self, key: SopsFileKey) -> bytes:
        """Decrypts the value. Invalid: it was altered or moved, or has the wrong format for its
        field.
        """
        plain = str(key.open(self.text, self.place))
        if not self.in_base64:
            return plain.encode()
        try:
            # Like the API server, ignore line breaks.
            return base64.b64decode(plain.replace("\r", "").replace("\n", ""), validate=True)
        except binascii.Error:
            # Not chained: the error may contain the value.
            raise Invalid(
                f"{self.place.rstrip(':')} is not base64; use stringData instead"
            ) from None


def extract_encrypted_values(
    raw: KubeObject, line: bytes
) -> tuple[KubeObject, tuple[EncryptedValue, ...]]:
    """Replaces encrypted values with placeholders and returns both; `line` is the object as bytes.
    Invalid: something other than values of a Secret is encrypted, or a value that should be
    encrypted is not.
    """
    if ENCRYPTED_PREFIX not in line or METADATA not in raw:
        return raw, ()
    metadata = _checked(SopsMetadata.parse(raw[METADATA]))
    found = {(field, key): value for field, key, value in _values(raw, metadata)}
    plain = {name: value for name, value in raw.items() if name != METADATA}
    for field in _PLACES:
        if isinstance(raw.get(field), dict):
            plain[field] = {
                key: placeholder(found[field, key].name) if (field, key) in found else value
                for key, value in raw[field].items()
            }
    if not is_secret(raw) or any(ENCRYPTED_PREFIX.decode() in text for text in _texts(plain)):
        raise Invalid(
            f"{describe_object(raw)} is encrypted by SOPS outside of Secret values: "
            "encrypt the values of Secrets only (encrypted_regex: ^(data|stringData)$)"
        )
    return plain, tuple(found.values())


def _checked(metadata: SopsMetadata) -> SopsMetadata:
    """Checks the rules of a SOPS file. Invalid: a regular expression could run for ever and block
    the agent.
    """
    for name, rule in metadata.rules.items():
        if name.endswith("_regex") and not _NAMES.fullmatch(rule):
            raise Invalid(f"sops.{name} is not a list of names: encrypt with ^(data|stringData)$")
    return metadata


def _search(rule: str, text: str) -> bool:
    try:
        return re.search(rule, text) is not None
    except re.error:
        raise Invalid("a SOPS encryption rule is not a valid regular expression") from None


def _values(raw: KubeObject, metadata: SopsMetadata) -> Iterator[tuple[str, str, EncryptedValue]]:
    for field in _PLACES:
        values = raw.get(field)
        for key, text in values.items() if isinstance(values, dict) else ():
            named = metadata.matches_rule(field, _search) or metadata.matches_rule(key, _search)
            if not metadata.is_encrypted(matches=named):
                continue
            bound = authenticated_path((field, key))
            name = hashlib.blake2b(f"{bound}{text}".encode(), digest_size=16).hexdigest()
            value = EncryptedValue(name, name, str(text), bound, metadata.age, field == "data")
            yield field, key, value


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _texts(child)
