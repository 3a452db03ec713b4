"""JSON Schema of the settings of plug-ins, for manifests and forms."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any, get_args, get_origin

from controlplane.platform.graphql.plugin_inputs import description_of, settings_json
from controlplane.platform.plugin_settings import (
    Form,
    Plugin,
    Setting,
    SettingField,
    camel,
    setting_fields,
)
from core.json_object import JsonObject

_TYPES: Mapping[object, JsonObject] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    time: {"type": "string", "format": "time"},
}


def schema_of_kind(kind: type[Plugin]) -> JsonObject:
    """Returns the schema of a kind's settings, as they stand beside the kind."""
    settings_schema = schema_of(kind)
    key = camel(kind.key)
    schema = {"properties": {key: settings_schema}, "required": [key]} if key else settings_schema
    return {
        "title": kind.title,
        "description": kind.summary(),
        "type": "object",
        "properties": schema["properties"],
        "required": schema["required"],
        "examples": [kind.example()],
    }


def schema_of(settings: type[Any]) -> JsonObject:
    """Returns the schema of a settings class."""
    members = setting_fields(settings)
    return {
        "type": "object",
        "properties": {member.published: _property(settings, member) for member in members},
        "required": [member.published for member in members if member.required],
    }


def _property(settings: type[Any], member: SettingField) -> JsonObject:
    setting = member.setting
    schema = _type_schema(member.type) | {
        "title": setting.title,
        "description": description_of(settings, member),
    }
    if setting.form is Form.SECRET:
        return schema | {"writeOnly": True}
    if not member.required and member.default is not None:
        schema["default"] = settings_json(member.default)
    return schema | _limits(setting, schema["type"])


def _limits(setting: Setting, kind: str) -> JsonObject:
    limits: JsonObject = {}
    if kind == "string":
        limits["maxLength"] = setting.max_length
        if setting.form is not Form.TEXT:
            limits["format"] = setting.form.value
    limits |= {"minimum": setting.minimum, "maximum": setting.maximum}
    limits["maxItems"] = setting.max_items
    return {name: limit for name, limit in limits.items() if limit is not None}


def _type_schema(kind: Any) -> JsonObject:
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _type_schema(get_args(kind)[0])}
    if get_origin(kind) is Mapping:
        return {"type": "object"}
    if is_dataclass(kind):
        return schema_of(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return dict(_TYPES.get(kind, _TYPES[str]))
