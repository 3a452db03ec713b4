"""Whole files of SOPS: what they hold, and that nothing of it was altered.

Values are opened by `fleet.sops`. The message authentication code is the SHA-512 of all values in
their order, encrypted like a value, bound to the time of the last change.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml

from fleet import patterns
from fleet.age import AgeIdentity
from fleet.errors import Invalid
from fleet.sops import MARK, METADATA, FileKey, Metadata, Path, key_for, place
from gitcache.decrypt import flat

MOST_BYTES = 4 << 20
_DEEPEST = 64
_ONLY_ENCRYPTED = hashlib.sha256(b"sops").digest()


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
    metadata = Metadata.of(documents[0].get(METADATA))
    trees = [{key: value for key, value in doc.items() if key != METADATA} for doc in documents]
    key = key_for(metadata.age, identities)
    if key is None:
        raise Invalid(
            f"it is for {', '.join(sorted(metadata.age)) or 'no age recipient'}, and this "
            "repository's project has no such key"
        )
    opened = _Opening(metadata, key)
    found = [opened.tree(tree) for tree in trees]
    opened.check()
    if is_flat:
        return flat.written(name, found[0])
    if not is_yaml and not name.endswith(".json"):
        return _content(found[0])
    if len(found) == 1:
        return json.dumps(found[0], ensure_ascii=False, indent=1).encode() + b"\n"
    return b"".join(
        b"---\n" + json.dumps(document, ensure_ascii=False).encode() + b"\n" for document in found
    )


class _Opening:
    """One file being opened; what was seen goes into the code, in the order of the file."""

    def __init__(self, metadata: Metadata, key: FileKey) -> None:
        self._metadata = metadata
        self._key = key
        self._hash = hashlib.sha512()
        if metadata.only_encrypted:
            self._hash.update(_ONLY_ENCRYPTED)

    def tree(self, value: Any, path: Path = (), *, named: bool = False) -> Any:
        """What stands at a path; `named`: the file's rule names one of the path's keys."""
        if len(path) > _DEEPEST:
            raise Invalid(f"more than {_DEEPEST} levels")
        if isinstance(value, dict):
            return {_key(key): self._below(inner, path, key, named) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.tree(item, path, named=named) for item in value]
        return None if value is None else self._leaf(value, path, named)

    def check(self) -> None:
        """Invalid: the values are not those that were there when the file was written."""
        code = self._key.open(self._metadata.mac, self._metadata.modified)
        own = self._hash.hexdigest().upper()
        if not isinstance(code, str) or not hmac.compare_digest(code, own):
            raise Invalid("its message authentication code is wrong: it was altered by hand")

    def _below(self, value: Any, path: Path, key: str, named: bool) -> Any:
        named = named or self._metadata.names(key, patterns.is_found)
        return self.tree(value, (*path, key), named=named)

    def _leaf(self, value: Any, path: Path, named: bool) -> Any:
        encrypted = self._metadata.encrypts(named=named)
        found = self._key.open(value, place(path)) if encrypted else value
        if encrypted or not self._metadata.only_encrypted:
            self._hash.update(_as_bytes(found, path))
        return found


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
    if not found or not all(isinstance(document, dict) for document in found):
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
