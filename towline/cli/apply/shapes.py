"""Shapes of manifests: the fields that a document may have, and their types.

A shape is a type, [shape] for a list, a dict for an object, STRING_MAP for a map of strings,
ANYTHING for a value that only the API validates.
"""

import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

from core.errors import Invalid

STRING_MAP = "map of strings"
ANYTHING = "any value"
Value = TypeVar("Value")
Shape = object
Fields = dict[str, Shape]
"""Content of a manifest, or attributes built from it: `check` has compared it with its shape."""
SOURCE: Fields = {"env": str, "file": str}
"""Source of a secret."""
_TYPE_NAMES: Mapping[type, str] = {
    str: "text (quote it)",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def fields_of(kind: type, *without: str) -> Fields:
    """Fields of an input object of the API, without some."""
    hints = get_type_hints(kind)
    return {name: _shape(hint) for name, hint in hints.items() if name not in without}


def check(value: object, shape: Shape, place: str, where: str) -> None:
    """Raises Invalid, with the document and the field, if a value does not have a shape."""
    if isinstance(shape, Mapping):
        for key, part in _typed(value, dict, place, where).items():
            if key not in shape:
                raise Invalid(f"{place}: {where} has no field {key}")
            check(part, shape[key], place, f"{where}.{key}")
    elif isinstance(shape, list):
        for number, item in enumerate(_typed(value, list, place, where)):
            check(item, shape[0], place, f"{where}[{number}]")
    elif shape == ANYTHING:
        _check_numbers(value, place, where)
    elif shape == STRING_MAP:
        for key, text in _typed(value, dict, place, where).items():
            _typed(text, str, place, f"{where}.{key}")
    elif isinstance(shape, type):
        _typed(value, shape, place, where)


def _shape(hint: object) -> Shape:
    """Shape of an annotation of a generated input."""
    arguments = get_args(hint)
    if get_origin(hint) is UnionType:
        return _shape(next(part for part in arguments if part is not NoneType))
    if get_origin(hint) is Sequence:
        return [_shape(arguments[0])]
    return fields_of(hint) if isinstance(hint, type) and is_typeddict(hint) else hint


def _check_numbers(value: object, place: str, where: str) -> None:
    """Rejects infinity and NaN: YAML allows them, JSON does not."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{place}: {where} is {value}; use a finite number")
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_numbers(part, place, f"{where}.{key}")


def _typed(value: object, wanted: type[Value], place: str, where: str) -> Value:
    if type(value) is not wanted and (wanted, type(value)) != (float, int):
        raise Invalid(f"{place}: {where} is not {_TYPE_NAMES[wanted]}")
    _check_numbers(value, place, where)
    return cast("Value", value)
