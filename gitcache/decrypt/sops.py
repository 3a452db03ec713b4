"""Decrypts and verifies complete SOPS files.

`core.sops` decrypts single values. The message authentication code is the SHA-512 of all
values in order, encrypted like a value and bound to the time of the last change.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import yaml

from core import patterns
from core.age import AgeIdentity
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.sops import (
    ENCRYPTED_PREFIX,
    METADATA,
    Path,
    SopsFileKey,
    SopsMetadata,
    authenticated_path,
    decrypt_file_key,
)
from gitcache.decrypt import flat

MAX_FILE_BYTES = 4 << 20
_MAX_DEPTH = 64
_ONLY_ENCRYPTED = hashlib.sha256(b"sops").digest()


def is_encrypted(data: bytes) -> bool:
    """True if the bytes look like a SOPS file."""
    return ENCRYPTED_PREFIX in data and b"sops" in data


def decrypt(data: bytes, name: str, identities: Sequence[AgeIdentity]) -> bytes:
    """Decrypts a file: YAML and JSON to JSON, which is valid YAML; others to their own format.

    Raises Invalid, without values, for a malformed or altered file or without a matching key.
    """
    if len(data) > MAX_FILE_BYTES:
        raise Invalid(
            f"the file has {len(data):,} bytes; at most {MAX_FILE_BYTES:,} can be decrypted"
        )
    is_yaml, is_flat = name.endswith((".yaml", ".yml")), flat.is_flat(name, data)
    documents = [_parse_flat(name, data)] if is_flat else _parse_documents(data, is_yaml=is_yaml)
    metadata = SopsMetadata.parse(documents[0].get(METADATA))
    trees = [{key: value for key, value in doc.items() if key != METADATA} for doc in documents]
    key = decrypt_file_key(metadata.age, identities)
    if key is None:
        raise Invalid(
            f"it is encrypted for {', '.join(sorted(metadata.age)) or 'no age recipient'}, but "
            "this repository's project has no such key"
        )
    decryption = _FileDecryption(metadata, key)
    decrypted = [decryption.decrypt_tree(tree) for tree in trees]
    decryption.check_mac()
    if is_flat:
        return flat.write(name, decrypted[0])
    if not is_yaml and not name.endswith(".json"):
        return _binary_content(decrypted[0])
    if len(decrypted) == 1:
        return json.dumps(decrypted[0], ensure_ascii=False, indent=1).encode() + b"\n"
    return b"".join(
        b"---\n" + json.dumps(document, ensure_ascii=False).encode() + b"\n"
        for document in decrypted
    )


class _FileDecryption:
    """Decrypts one file and hashes its values in file order."""

    def __init__(self, metadata: SopsMetadata, key: SopsFileKey) -> None:
        self._metadata = metadata
        self._key = key
        self._hash = hashlib.sha512()
        if metadata.only_encrypted:
            self._hash.update(_ONLY_ENCRYPTED)

    def decrypt_tree(self, value: object, path: Path = (), *, matches: bool = False) -> JsonValue:
        """Decrypts the value at a path; `matches`: a key of it matches the rule."""
        if len(path) > _MAX_DEPTH:
            raise Invalid(f"more than {_MAX_DEPTH} levels")
        if isinstance(value, dict):
            return {
                _checked_key(key): self._field(inner, path, key, matches)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.decrypt_tree(item, path, matches=matches) for item in value]
        return None if value is None else self._scalar(value, path, matches)

    def check_mac(self) -> None:
        """Raises Invalid if values were altered since the file was encrypted."""
        code = self._key.open(self._metadata.mac, self._metadata.modified)
        computed = self._hash.hexdigest().upper()
        if not isinstance(code, str) or not hmac.compare_digest(code, computed):
            raise Invalid(
                "its message authentication code is wrong: the file was edited without sops"
            )

    def _field(self, value: object, path: Path, key: str, matches: bool) -> object:
        matches = matches or self._metadata.matches_rule(key, patterns.search_pattern)
        return self.decrypt_tree(value, (*path, key), matches=matches)

    def _scalar(self, value: object, path: Path, matches: bool) -> object:
        encrypted = self._metadata.is_encrypted(matches=matches)
        decrypted = self._key.open(value, authenticated_path(path)) if encrypted else value
        if encrypted or not self._metadata.only_encrypted:
            self._hash.update(_as_bytes(decrypted, path))
        return decrypted


def _as_bytes(value: object, path: Path) -> bytes:
    """Encodes a value for the hash: numbers as in Go, booleans as in Python."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    raise Invalid(f"{':'.join(path)} is not text, a number or a boolean")


class _Yaml12Loader(yaml.SafeLoader):
    """YAML with the plain scalars of version 1.2, as in SOPS."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise Invalid("YAML aliases are not supported in encrypted files")
        return super().compose_node(parent, index)


for _tag, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Yaml12Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_form})$"), list(_first)
    )


def _parse_documents(data: bytes, *, is_yaml: bool) -> list[JsonObject]:
    """Parses the documents of a file, in order."""
    try:
        text = data.decode()
        # A subclass of the safe loader: no tag makes an object.
        documents = list(_load_documents(text)) if is_yaml else [json.loads(text)]
    except (ValueError, yaml.YAMLError, RecursionError):
        raise Invalid(f"it is not {'YAML' if is_yaml else 'JSON'}") from None
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise Invalid("it contains no object")
    return documents


def _parse_flat(name: str, data: bytes) -> JsonObject:
    try:
        return flat.parse(name, data.decode())
    except UnicodeDecodeError:
        raise Invalid("it is not UTF-8 text") from None


def _load_documents(text: str) -> Iterator[Any]:
    loader = _Yaml12Loader(text)
    try:
        while loader.check_data():
            yield loader.get_data()
    finally:
        loader.dispose()


def _binary_content(tree: JsonMapping) -> bytes:
    """Returns the content of a file that SOPS encrypted as binary."""
    content = tree.get("data")
    if set(tree) != {"data"} or not isinstance(content, str):
        raise Invalid("only YAML, JSON, dotenv, INI and binary files can be decrypted")
    return content.encode()


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise Invalid("a key is not text: quote it")
    return key
