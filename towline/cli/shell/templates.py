"""Templates of `-o jsonpath=…` and `-o custom-columns=…`, as kubectl understands them.

A list is an object with `items`.
"""

import json
import re
from collections.abc import Iterator, Sequence

import jsonpath
from jsonpath.exceptions import JSONPathError

from core.errors import Invalid

_TOKENS = re.compile(r"\{((?:[^{}\"']|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')*)\}")
_TEXT = re.compile(r"""(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)')""")


def fill(template: str, data: object) -> str:
    """Fills a JSONPath template. Invalid: the template is malformed."""
    parts = _TOKENS.split(template if "{" in template else f"{{{template}}}")
    if any("{" in text or "}" in text for text in parts[::2]):
        raise Invalid("jsonpath: braces do not match", field="--output")
    return "".join(_fill(parts, data))


def _fill(parts: Sequence[str], data: object) -> Iterator[str]:
    """Yields the output of alternating texts and expressions."""
    position = 0
    while position < len(parts):
        text, expression = parts[position], parts[position + 1 : position + 2]
        yield text
        position += 2
        word, _, path = expression[0].strip().partition(" ") if expression else ("", "", "")
        if word == "range":
            end = _end_of_range(parts, position)
            for item in find(path.strip(), data):
                yield from _fill([*parts[position : end - 1], parts[end - 1]], item)
            position = end + 1
        elif expression:
            yield _value(expression[0].strip(), data)


def _end_of_range(parts: Sequence[str], position: int) -> int:
    """Position of the `end` that belongs to a `range`."""
    depth = 1
    for number in range(position + 1, len(parts), 2):
        word = parts[number].strip().partition(" ")[0]
        depth += (word == "range") - (word == "end")
        if depth == 0:
            return number
    raise Invalid("jsonpath: range without end", field="--output")


def _value(expression: str, data: object) -> str:
    if quoted := _TEXT.fullmatch(expression):
        raw = quoted["double"] if quoted["double"] is not None else quoted["single"]
        return raw.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    return " ".join(_text(value) for value in find(expression, data))


def find(path: str, data: object) -> list[object]:
    """Values at a path; `$` at its start is optional. Invalid: the path is malformed."""
    inner = path.removeprefix("$").removeprefix("@")
    absolute = f"${inner}" if inner.startswith((".", "[")) or not inner else f"$.{inner}"
    try:
        return jsonpath.findall(absolute, data)  # ty: ignore[invalid-argument-type]
    except JSONPathError as error:
        raise Invalid(f"jsonpath {path}: {error}", field="--output") from None


def columns(template: str) -> list[tuple[str, str]]:
    """Parses `TITLE:.path,TITLE:.path`. Invalid: a column without a path."""
    found = []
    for column in re.split(r",(?=[^,:\]]+:)", template):
        title, colon, path = column.partition(":")
        if not colon or not title or not path:
            raise Invalid(f"custom-columns: {column!r} is not TITLE:.path", field="--output")
        found.append((title, path.strip("{}")))
    return found


def cell(path: str, row: object) -> str:
    """Text of a custom column; `<none>` without a value."""
    return ",".join(_text(value) for value in find(path, row) if value is not None) or "<none>"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
