"""Reads YAML like the Kubernetes API server: YAML 1.1 by go-yaml's rules, as JSON values.

Differences to PyYAML's loaders: `y` and `on` are booleans, `1e3` is a number, `12:30:45` and
dates are text, keys become text, a repeated key is an error, and alias expansion is bounded.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.nodes import ScalarNode

from core.errors import Invalid
from core.json_object import JsonObject, JsonValue

MAX_FILE_BYTES = 16 << 20
MAX_VALUES = 500_000
MAX_DEPTH = 200

_CORE = "tag:yaml.org,2002:"
_MERGE = f"{_CORE}merge"
_TRUE = {"y", "yes", "true", "on"}
_MAX_UINT64 = 2**64 - 1
_MIN_INT64 = -(2**63)
_MAX_PLAIN_FLOAT = 1e21


class YamlError(ValueError):
    """Malformed YAML; the message gives the line, from 1, and the reason."""


class _Loader(yaml.CSafeLoader):
    """The C parser with go-yaml's rules for plain scalars."""

    yaml_implicit_resolvers: dict = {}


def _spellings(*names: str) -> str:
    forms = [form for name in names for form in (name, name.capitalize(), name.upper())]
    return "|".join(dict.fromkeys(forms))


_RESOLVERS = (
    (
        "bool",
        rf"(?:{_spellings('y', 'yes', 'n', 'no', 'true', 'false', 'on', 'off')})",
        "yYnNtTfFoO",
    ),
    ("null", rf"(?:~|{_spellings('null')}|)", ["~", "n", "N", ""]),
    (
        "int",
        r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)",
        "-+0123456789",
    ),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("merge", r"(?:<<)", "<"),
)
for _name, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_CORE + _name, re.compile(rf"^(?:{_pattern})$"), list(_first))


def read_text(path: str, data: bytes) -> str:
    """Decodes a file. Raises Invalid for a large file and for other text than UTF-8."""
    if len(data) > MAX_FILE_BYTES:
        raise Invalid(f"{path}: {len(data):,} bytes; the limit is {MAX_FILE_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}, line {line}: not UTF-8 text") from error


def load_file(path: str, data: bytes, max_documents: int) -> list[JsonValue]:
    """Parses the documents of a file. Raises Invalid, naming file and line."""
    try:
        return [value for _, value in load_all(read_text(path, data), max_documents)]
    except YamlError as error:
        raise Invalid(f"{path}, {error}") from error


def load_all(text: str, max_documents: int) -> Iterator[tuple[int, JsonValue]]:
    """Yields each non-empty document and its first line. Raises YamlError."""
    loader = _Loader(text)
    try:
        yield from _documents(loader, max_documents)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"line {line}: {error.reason}") from error
    finally:
        loader.dispose()


def _documents(loader: Any, max_documents: int) -> Iterator[tuple[int, object]]:
    count = 0
    while not isinstance(event := loader.get_event(), StreamEndEvent):
        if not isinstance(event, DocumentStartEvent):
            continue
        count += 1
        if count > max_documents:
            raise YamlError(f"more than {max_documents:,} documents")
        first = loader.get_event()
        value = _Document(loader).value(first, 0)
        if value is not None:
            yield first.start_mark.line + 1, value


class _Document:
    """Builds the value of one document from parser events; counts values in expanded aliases.

    Uses events instead of nodes, because the library's composer recurses without limit in C.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._next: Callable[[], Any] = loader.get_event
        self._values = 0
        self._anchors: dict[str, tuple[object, int]] = {}

    def value(self, event: JsonValue, depth: int) -> JsonValue:
        """Builds the value that begins with an event."""
        if isinstance(event, AliasEvent):
            return self._alias_value(event)
        before = self._values
        self._count_values(event, 1)
        if depth > MAX_DEPTH:
            raise _error(event, "values are nested too deeply")
        value: JsonValue
        if isinstance(event, ScalarEvent):
            value = _scalar_value(event, self._tag(event))
        elif isinstance(event, SequenceStartEvent):
            value = self._sequence(event, depth)
        else:
            value = self._mapping(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._values - before
        return value

    def _alias_value(self, event: AliasEvent) -> object:
        if event.anchor not in self._anchors:
            raise _error(event, f"the alias *{str(event.anchor)[:40]} has no anchor before it")
        value, size = self._anchors[event.anchor]
        self._count_values(event, size)
        return value

    def _count_values(self, event: object, size: int) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            raise _error(event, f"more than {MAX_VALUES:,} values in one document")

    def _tag(self, event: ScalarEvent) -> str:
        if event.tag is None:
            return self._loader.resolve(ScalarNode, event.value, event.implicit)
        return f"{_CORE}str" if event.tag == "!" else event.tag

    def _sequence(self, start: SequenceStartEvent, depth: int) -> list[object]:
        _check_collection(start, "seq")
        items = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self.value(event, depth + 1))
        return items

    def _mapping(self, start: object, depth: int) -> dict[str, object]:
        _check_collection(start, "map")
        result: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        while not isinstance(event := self._next(), MappingEndEvent):
            tag = self._tag(event) if isinstance(event, ScalarEvent) else ""
            value_event = self._next() if tag == _MERGE else None
            if value_event is not None:
                merged += _mergeable(value_event, self.value(value_event, depth + 1))
                continue
            key = _key_text(event, self.value(event, depth + 1))
            if key in result:
                raise _error(event, f"duplicate key {key[:80]!r}")
            result[key] = self.value(self._next(), depth + 1)
        for values in merged:
            result = {**values, **result}
        return result


def _check_collection(event: Any, kind: str) -> None:
    if event.tag not in {None, "!", _CORE + kind}:
        raise _error(event, f"unknown tag {event.tag[:40]!r}")


def _mergeable(event: Any, value: Any) -> list[JsonObject]:
    maps = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in maps):
        raise _error(event, "`<<` needs a map or a list of maps")
    return maps


def _scalar_value(event: ScalarEvent, tag: str) -> object:
    kind = tag.removeprefix(_CORE)
    text = event.value
    try:
        if kind == "str" or tag == _MERGE:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in _TRUE
        if kind == "int":
            return parse_integer(text)
        if kind == "float":
            return parse_number(text)
    except ValueError as error:
        raise _error(event, _number_problem(text, error)) from error
    raise _error(event, f"unknown tag {tag[:40]!r}")


def _number_problem(text: str, error: ValueError) -> str:
    return str(error) if "JSON" in str(error) else f"{text[:40]!r} is not a number"


def _key_text(event: object, value: object) -> str:
    if value is None or isinstance(value, list | dict):
        raise _error(event, "a key must be text")
    return value if isinstance(value, str) else json.dumps(value)


def parse_integer(text: str) -> float:
    """Parses a YAML 1.1 integer; beyond 64 bits it becomes a float, as in Go."""
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2])
    if base is not None:
        value = sign * int(digits[2:], base)
    elif len(digits) > 1 and digits[0] == "0":
        value = sign * int(digits, 8)
    else:
        # Python limits the digits that it converts, because long conversions are slow.
        value = sign * int(digits) if len(digits) < 4000 else 0
    if _MIN_INT64 <= value <= _MAX_UINT64 and len(digits) < 4000:
        return value
    return parse_number(f"{'-' if sign < 0 else ''}{digits}")


def parse_number(text: str) -> float:
    """Parses a float as Go writes it in JSON: whole numbers without a fraction."""
    plain = text.replace("_", "").lower()
    value = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    return json_number(value)


def json_number(value: float) -> float:
    """Converts a float to JSON. Raises ValueError for infinity and NaN."""
    if not math.isfinite(value):
        raise ValueError("infinity and NaN are not JSON numbers")
    if value == math.floor(value) and abs(value) < _MAX_PLAIN_FLOAT:
        integer = int(value)
        return integer if _MIN_INT64 <= integer <= _MAX_UINT64 else value
    return value


def _error(event: Any, reason: str) -> YamlError:
    return YamlError(f"line {event.start_mark.line + 1}: {reason}")
