"""YAML as the Kubernetes API server reads it: YAML 1.1 by go-yaml's rules, into JSON values.

Differences to PyYAML's own loaders: `y` and `on` are booleans, `1e3` is a number, `12:30:45` and
dates are text, keys become text, a repeated key is an error, aliases cannot grow without bound.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_VALUES = 500_000
MAX_DEPTH = 200

_CORE = "tag:yaml.org,2002:"
_TRUE = {"y", "yes", "true", "on"}
_MAX_UINT64 = 2**64 - 1
_MIN_INT64 = -(2**63)
_MAX_PLAIN_FLOAT = 1e21


class YamlError(ValueError):
    """Text that is not a sequence of JSON-like values; says where (line from 1) and why."""


class _Loader(yaml.CSafeLoader):
    """The C parser with go-yaml's table of plain scalars."""

    yaml_implicit_resolvers: dict = {}


def _cases(*words: str) -> str:
    forms = [form for word in words for form in (word, word.capitalize(), word.upper())]
    return "|".join(dict.fromkeys(forms))


_RESOLVERS = (
    ("bool", rf"(?:{_cases('y', 'yes', 'n', 'no', 'true', 'false', 'on', 'off')})", "yYnNtTfFoO"),
    ("null", rf"(?:~|{_cases('null')}|)", ["~", "n", "N", ""]),
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


def load_all(text: str, max_documents: int) -> Iterator[tuple[int, Any]]:
    """Each document that is not empty, with the line it starts at. YamlError: see there."""
    loader = _Loader(text)
    try:
        for _ in range(max_documents + 1):
            if not loader.check_node():
                return
            node = loader.get_node()
            if node is not None and (value := _Builder().build(node)) is not None:
                yield node.start_mark.line + 1, value
        raise YamlError(f"more than {max_documents:,} documents")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).partition("\n")[0]) from error
    except RecursionError as error:
        raise YamlError("values are nested too deeply") from error
    finally:
        loader.dispose()


class _Builder:
    """Turns one document's nodes into values, counting what aliases would make of it."""

    def __init__(self) -> None:
        self._values = 0
        self._open: set[int] = set()

    def build(self, node: Node, depth: int = 0) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _error(node, f"more than {MAX_VALUES:,} values in one document")
        if depth > MAX_DEPTH or id(node) in self._open:
            raise _error(node, "values are nested too deeply, or an alias holds itself")
        if isinstance(node, ScalarNode):
            return _scalar(node)
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.build(one, depth + 1) for one in node.value]
            return self._mapping(node.value, depth)
        finally:
            self._open.discard(id(node))

    def _mapping(self, pairs: list[tuple[Node, Node]], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for key_node, value_node in pairs:
            if key_node.tag == _CORE + "merge":
                merged += self._merge(value_node, depth)
                continue
            key = _key(key_node)
            if key in result:
                raise _error(key_node, f"the key {key!r} is there twice")
            result[key] = self.build(value_node, depth + 1)
        for one in merged:
            for key, value in one.items():
                result.setdefault(key, value)
        return result

    def _merge(self, node: Node, depth: int) -> list[dict[str, Any]]:
        nodes: Sequence[Node] = node.value if isinstance(node, SequenceNode) else [node]
        if not all(isinstance(one, MappingNode) for one in nodes):
            raise _error(node, "`<<` needs a map or a list of maps")
        return [self.build(one, depth + 1) for one in nodes]


def _scalar(node: ScalarNode) -> Any:
    kind = node.tag.removeprefix(_CORE)
    text = node.value
    try:
        if kind == "str" or (kind in {"merge", "value"} and node.tag.startswith(_CORE)):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in _TRUE
        if kind == "int":
            return integer(text)
        if kind == "float":
            return number(text)
    except ValueError as error:
        raise _error(node, str(error)) from error
    raise _error(node, f"the tag {node.tag[:40]!r} is not known")


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise _error(node, "a key must be text")
    value = _scalar(node)
    if value is None:
        raise _error(node, "a key must not be null")
    return value if isinstance(value, str) else json.dumps(value)


def integer(text: str) -> float:
    """A YAML 1.1 integer; beyond 64 bits it is a float, as in Go."""
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2])
    if base is not None:
        value = sign * int(digits[2:], base)
    elif len(digits) > 1 and digits[0] == "0":
        value = sign * int(digits, 8)
    else:
        # Python bounds the digits it converts, so that a long text cannot take long.
        value = sign * int(digits) if len(digits) < 4000 else 0
    if _MIN_INT64 <= value <= _MAX_UINT64 and len(digits) < 4000:
        return value
    return number(f"{'-' if sign < 0 else ''}{digits}")


def number(text: str) -> float:
    """A float in the form in which Go writes it as JSON: whole numbers without a fraction."""
    plain = text.replace("_", "").lower()
    value = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    return json_number(value)


def json_number(value: float) -> float:
    """The value as JSON has it. ValueError: infinity or NaN."""
    if not math.isfinite(value):
        raise ValueError("infinity and NaN are no JSON numbers")
    if value == math.floor(value) and abs(value) < _MAX_PLAIN_FLOAT:
        whole = int(value)
        return whole if _MIN_INT64 <= whole <= _MAX_UINT64 else value
    return value


def _error(node: Node, reason: str) -> YamlError:
    return YamlError(f"line {node.start_mark.line + 1}: {reason}")
