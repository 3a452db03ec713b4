"""API inputs that are derived from the settings of plug-ins, and their conversion."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from enum import StrEnum
from functools import cache
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin

import orjson
import strawberry

from controlplane.platform.graphql.descriptions import DocstringReader
from controlplane.platform.graphql.inputs import json_object
from controlplane.platform.parts import default_of
from controlplane.platform.plugin_settings import (
    Form,
    Plugin,
    SettingField,
    camel,
    setting_fields,
)
from core.errors import Invalid
from core.json_object import JsonObject, JsonValue

T = TypeVar("T")

_DOCSTRINGS = DocstringReader()
_IDS = frozenset({Form.CLUSTER, Form.REPOSITORY, Form.SERVICE_ACCOUNT})


def enum_of_kinds(name: str, kinds: Iterable[type[Plugin]], description: str) -> type[StrEnum]:
    """Returns the published enum of these kinds."""
    summaries = {kind.kind: kind.summary() for kind in kinds}
    enum = strawberry.enum(
        StrEnum(name, {kind: kind for kind in summaries}), description=description
    )
    for value in vars(enum)["__strawberry_definition__"].values:
        value.description = summaries[value.name]
    return enum


def with_settings_of(kinds: Iterable[type[Plugin]], prefix: str) -> Callable[[type[T]], type[T]]:
    """Adds the settings of all kinds to a class, before it becomes an input.

    `prefix` begins the names of the inputs of nested settings.
    """

    def add(target: type[T]) -> type[T]:
        for name, (schema_type, description) in _fields_of(kinds, prefix).items():
            target.__annotations__[name] = schema_type | None
            setattr(target, name, strawberry.field(default=None, description=description))
        return target

    return add


def settings_from(kind: type[T], attributes: object, path: str) -> T:
    """Builds the settings of a kind from an input. Raises Invalid for a missing field."""
    key = kind.key if issubclass(kind, Plugin) else ""
    if not key:
        return _read_settings(kind, attributes, path)
    nested = getattr(attributes, key)
    if nested is None:
        raise Invalid(f"this type requires {key}", field=path)
    return _read_settings(kind, nested, f"{path}.{key}")


def settings_of_kind(value: Plugin) -> JsonObject:
    """Returns the settings of a plug-in with the field names of its input, without defaults."""
    settings = settings_json(value)
    return {value.key: settings} if value.key else settings


def settings_json(value: object) -> JsonValue:
    """Converts a value of the model to JSON: camel case, without defaults and secrets."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [settings_json(item) for item in value]
    if not is_dataclass(value):
        return dict(value) if isinstance(value, Mapping) else value
    secrets = {m.name for m in setting_fields(type(value)) if m.setting.form is Form.SECRET}
    return {
        camel(member.name): settings_json(current)
        for member in fields(value)
        if member.name not in secrets
        and (current := getattr(value, member.name)) != default_of(member)
    }


def description_of(settings: type[Any], member: SettingField) -> str:
    """Returns the docstring of a setting with its default and its limit."""
    text = " ".join(_DOCSTRINGS.of_member(settings, member.name).split())
    return " ".join((text, *_default_text(member, text), *_limit_text(member, text)))


def _default_text(member: SettingField, text: str) -> Iterator[str]:
    default = member.default
    if member.required or "Default:" in text or member.setting.form is Form.SECRET:
        return
    if isinstance(default, bool):
        yield f"Default: {str(default).lower()}."
    elif isinstance(default, int):
        yield f"Default: {default:,}."
    elif isinstance(default, time):
        yield f"Default: `{default:%H:%M}`."
    elif default:
        yield f"Default: `{default}`."
    else:
        yield "Default: none."


def _limit_text(member: SettingField, text: str) -> Iterator[str]:
    setting = member.setting
    if "Limit:" in text:
        return
    if setting.maximum is not None:
        yield f"Limit: {setting.maximum:,}."
    elif setting.max_items is not None:
        yield f"Limit: {setting.max_items:,}."
    elif member.type is str and setting.form not in (Form.SECRET, *_IDS):
        yield f"Limit: {setting.max_length:,} characters."


def _fields_of(kinds: Iterable[type[Plugin]], prefix: str) -> dict[str, tuple[Any, str]]:
    """Returns the type and the description of each field that one of the kinds has."""
    types: JsonObject = {}
    texts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        if kind.key:
            types[kind.key] = _input_type(
                kind, f"{prefix}{_pascal_case(kind.key)}Attributes", prefix
            )
            texts[kind.key][f"{kind.title} settings."].append(kind.kind)
            continue
        for member in setting_fields(kind):
            types[member.public_name] = _schema_type(kind, member, prefix)
            texts[member.public_name][description_of(kind, member)].append(kind.kind)
    return {name: (types[name], _join_by_kinds(texts[name])) for name in types}


def _pascal_case(key: str) -> str:
    return "".join(part.title() for part in key.split("_"))


def _join_by_kinds(texts: Mapping[str, list[str]]) -> str:
    return " ".join(
        f"{', '.join(kinds)}: {_sentence_after_colon(text)}" for text, kinds in texts.items()
    )


def _sentence_after_colon(text: str) -> str:
    """Returns a sentence as it stands after a colon: in lower case, except names."""
    if text.endswith(" settings."):
        return text
    first = text.partition(" ")[0]
    return text[0].lower() + text[1:] if len(first) == 1 or first[1:].islower() else text


@cache
def _input_type(settings: type[Any], name: str, prefix: str) -> Any:
    body: JsonObject = {"__annotations__": {}}
    for member in setting_fields(settings):
        schema_type, default = _schema_type(settings, member, prefix), member.default
        if default is None or default == () or member.setting.form is Form.SECRET:
            schema_type, default = schema_type | None, None
        body["__annotations__"][member.public_name] = schema_type
        body[member.public_name] = strawberry.field(
            description=description_of(settings, member), default=default
        )
    text = " ".join(inspect.cleandoc(settings.__doc__ or "").split())
    return strawberry.input(type(name, (), body), name=name, description=text)


def _schema_type(settings: type[Any], member: SettingField, prefix: str) -> Any:
    if member.setting.form in _IDS:
        return strawberry.ID
    if get_origin(member.type) is tuple:
        return GenericAlias(list, _nested_type(get_args(member.type)[0], prefix))
    if get_origin(member.type) is Mapping:
        return str
    if _is_unpublished_enum(settings, member.type):
        strawberry.enum(member.type)
    return _nested_type(member.type, prefix)


def _is_unpublished_enum(settings: type[Any], kind: type[Any]) -> bool:
    """Returns whether this is an enum beside the settings that no API module has published."""
    is_own_enum = issubclass(kind, StrEnum) and kind.__module__ == settings.__module__
    return is_own_enum and "__strawberry_definition__" not in vars(kind)


def _nested_type(kind: Any, prefix: str) -> object:
    return (
        _input_type(kind, f"{prefix}{kind.__name__}Attributes", prefix)
        if is_dataclass(kind)
        else kind
    )


def _read_settings(settings: type[T], attributes: object, path: str) -> T:
    values = {}
    for member in setting_fields(settings):
        value = getattr(attributes, member.public_name)
        if value is not None:
            values[member.name] = _convert_value(member.type, value, f"{path}.{member.published}")
        elif member.required:
            raise Invalid(f"this type requires {member.published}", field=path)
    return settings(**values)


def _convert_value(kind: Any, value: Any, path: str) -> object:
    if isinstance(value, list):
        return tuple(_convert_value(get_args(kind)[0], item, path) for item in value)
    if get_origin(kind) is Mapping:
        return json_object(_parse_json(value, path), path)
    return _read_settings(kind, value, path) if is_dataclass(kind) else value


def _parse_json(text: str, path: str) -> JsonValue:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Invalid("is not valid JSON", field=path) from None
