"""The SOPS file format, version 3 (getsops.io, "Encryption Protocol"), for age recipients.

A file is a tree whose values are encrypted one by one: AES-256-GCM with a nonce of 32 bytes, the
path of keys authenticated. The message authentication code is the SHA-512 of all values in their
order, encrypted like a value, bound to the time of the last change. Keys stay readable.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleet.age import AgeIdentity
from fleet.errors import Invalid
from gitcache.decrypt import flat

MARK = b"ENC[AES256_GCM,"
MOST_BYTES = 4 << 20
_MOST_RECIPIENTS = 64
_DEEPEST = 64
_VALUE = re.compile(
    r"ENC\[AES256_GCM,data:([^,]*),iv:([^,]*),tag:([^,]*),type:(str|int|float|bool|bytes)\]"
)
_ONLY_ENCRYPTED = hashlib.sha256(b"sops").digest()
_DEFAULT_SUFFIX = "_unencrypted"
_RULES = ("unencrypted_suffix", "encrypted_suffix", "unencrypted_regex", "encrypted_regex")
_UNKNOWN_RULES = ("unencrypted_comment_regex", "encrypted_comment_regex")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the key `sops` of a file says."""

    modified: str
    mac: str
    age: Mapping[str, str]
    rules: Mapping[str, str]
    only_encrypted: bool

    def encrypts(self, path: Path) -> bool:
        """Whether values at a path are encrypted, by the file's rules."""
        rules = self.rules
        if "encrypted_suffix" in rules:
            return any(one.endswith(rules["encrypted_suffix"]) for one in path)
        if "encrypted_regex" in rules:
            return _matches(rules["encrypted_regex"], path)
        if "unencrypted_regex" in rules:
            return not _matches(rules["unencrypted_regex"], path)
        suffix = rules.get("unencrypted_suffix", _DEFAULT_SUFFIX)
        return not (suffix and any(one.endswith(suffix) for one in path))


def is_encrypted(data: bytes) -> bool:
    """Whether bytes look like a file of SOPS."""
    return MARK in data and b"sops" in data


def decrypt(data: bytes, name: str, identities: Sequence[AgeIdentity]) -> bytes:
    """The file in the clear: YAML and JSON as JSON, which is YAML; others in their own form.

    Invalid: it is no such file, none of the keys opens it, or it was altered. The message holds no
    value.
    """
    if len(data) > MOST_BYTES:
        raise Invalid(f"{len(data):,} bytes, {MOST_BYTES:,} at most are decrypted")
    is_yaml, is_flat = name.endswith((".yaml", ".yml")), flat.is_flat(name, data)
    documents = [_flat(name, data)] if is_flat else _parsed(data, is_yaml=is_yaml)
    metadata = _metadata(documents[0].get("sops"))
    trees = [{key: one for key, one in doc.items() if key != "sops"} for doc in documents]
    opened = _Opening(metadata, _data_key(metadata, identities))
    found = [opened.tree(one, ()) for one in trees]
    opened.check()
    if is_flat:
        return flat.written(name, found[0])
    if not is_yaml and not name.endswith(".json"):
        return _content(found[0])
    if len(found) == 1:
        return json.dumps(found[0], ensure_ascii=False, indent=1).encode() + b"\n"
    return b"".join(
        b"---\n" + json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in found
    )


class _Opening:
    """One file being opened; what was seen goes into the code, in the order of the file."""

    def __init__(self, metadata: Metadata, key: bytes) -> None:
        self._metadata = metadata
        self._key = AESGCM(key)
        self._hash = hashlib.sha512()
        if metadata.only_encrypted:
            self._hash.update(_ONLY_ENCRYPTED)

    def tree(self, value: Any, path: Path) -> Any:
        if len(path) > _DEEPEST:
            raise Invalid(f"more than {_DEEPEST} levels")
        if isinstance(value, dict):
            return {_key(key): self.tree(one, (*path, _key(key))) for key, one in value.items()}
        if isinstance(value, list):
            return [self.tree(one, path) for one in value]
        return None if value is None else self._leaf(value, path)

    def check(self) -> None:
        """Invalid: the values are not those that were there when the file was written."""
        code = self._value(self._metadata.mac, self._metadata.modified)
        own = self._hash.hexdigest().upper()
        if not isinstance(code, str) or not hmac.compare_digest(code, own):
            raise Invalid("its message authentication code is wrong: it was altered by hand")

    def _leaf(self, value: Any, path: Path) -> Any:
        encrypted = self._metadata.encrypts(path)
        found = self._value(value, "".join(f"{one}:" for one in path)) if encrypted else value
        if encrypted or not self._metadata.only_encrypted:
            self._hash.update(_as_bytes(found, path))
        return found

    def _value(self, text: Any, bound: str) -> Any:
        if text == "":
            return ""
        parts = _VALUE.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise Invalid(
                f"{bound.rstrip(':') or 'the code'} is not encrypted, though it should be"
            )
        try:
            sealed, nonce, tag = (
                base64.b64decode(one, validate=True) for one in parts.groups()[:3]
            )
            plain = self._key.decrypt(nonce, sealed + tag, bound.encode())
            return _TYPES[parts[4]](plain)
        except (InvalidTag, ValueError, KeyError):
            raise Invalid(f"{bound.rstrip(':')} does not open: it was altered or moved") from None


_TYPES: Mapping[str, Callable[[bytes], Any]] = {
    "str": bytes.decode,
    "bytes": bytes.decode,
    "int": lambda plain: int(plain),
    "float": lambda plain: float(plain),
    "bool": lambda plain: {b"True": True, b"False": False, b"true": True, b"false": False}[plain],
}


def _as_bytes(value: Any, path: Path) -> bytes:
    """A value as it goes into the code: Go's forms of numbers, Python's of booleans."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    raise Invalid(f"{':'.join(path)} is neither text, number nor boolean")


def _data_key(metadata: Metadata, identities: Sequence[AgeIdentity]) -> bytes:
    for one in identities:
        sealed = metadata.age.get(one.recipient)
        if sealed is None:
            continue
        key = one.open(sealed.encode())
        if len(key) != 32:
            raise Invalid("its data key has not 32 bytes")
        return key
    raise Invalid(
        f"it is for {', '.join(sorted(metadata.age)) or 'no age recipient'}, and this repository's "
        "project has no such key"
    )


def _metadata(given: Any) -> Metadata:
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
        age = {str(one["recipient"]): str(one["enc"]) for one in recipients}
        rules = {name: str(given[name]) for name in _RULES if given.get(name)}
        if len(rules) > 1:
            raise Invalid(f"{' and '.join(rules)} exclude each other")
        only = given.get("mac_only_encrypted") is True
        return Metadata(str(given["lastmodified"]), str(given["mac"]), age, rules, only)
    except (KeyError, TypeError):
        raise Invalid("its metadata of SOPS are not whole") from None


class _Loader(yaml.SafeLoader):
    """YAML whose plain words mean what they mean in version 1.2, as SOPS reads it."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise Invalid("aliases are not decrypted")
        return super().compose_node(parent, index)


for _tag, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_form})$"), list(_first)
    )


def _parsed(data: bytes, *, is_yaml: bool) -> list[dict[str, Any]]:
    """The documents of a file, in their order."""
    try:
        text = data.decode()
        # A subclass of the safe loader: no tag makes an object.
        found = list(_documents(text)) if is_yaml else [json.loads(text)]
    except (ValueError, yaml.YAMLError, RecursionError):
        raise Invalid(f"it is no {'YAML' if is_yaml else 'JSON'}") from None
    if not found or not all(isinstance(one, dict) for one in found):
        raise Invalid("it holds no object")
    return found


def _flat(name: str, data: bytes) -> dict[str, Any]:
    try:
        return flat.parsed(name, data.decode())
    except UnicodeDecodeError:
        raise Invalid("it is no text") from None


def _documents(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_data():
            yield loader.get_data()
    finally:
        loader.dispose()


def _content(tree: Mapping[str, Any]) -> bytes:
    """What a file is of which SOPS knows no structure."""
    content = tree.get("data")
    if set(tree) != {"data"} or not isinstance(content, str):
        raise Invalid("of this form only YAML, JSON, dotenv, INI and binary files are decrypted")
    return content.encode()


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise Invalid("a key is no text: quote it")
    return key


def _matches(pattern: str, path: Path) -> bool:
    try:
        return any(re.search(pattern, one) for one in path)
    except re.error:
        raise Invalid("its rule of what is encrypted is no regular expression") from None
