"""JSON Schemas of kinds, for editors, and their fields as text."""

import re
from collections.abc import Mapping, Set
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin

from controlplane.authorization import DEFAULT_PROJECT
from controlplane.manifests.model.codec import (
    JSON_TYPES,
    MAPPING_TYPES,
    SEQUENCE_TYPES,
    SpecCodec,
    SpecField,
    item_type,
    settings_key,
    unwrapped,
)
from controlplane.manifests.model.documents import API_VERSION
from controlplane.platform.graphql.descriptions import DocstringReader
from controlplane.platform.kinds import AnyKind
from controlplane.platform.labels import LABEL_NAME_SCHEMA, LABEL_VALUE_SCHEMA
from controlplane.platform.plugin_settings import Plugin
from core.json_object import JsonObject
from core.sealed_places import SEALED

_LABELS: JsonObject = {
    "type": "object",
    "propertyNames": LABEL_NAME_SCHEMA,
    "additionalProperties": LABEL_VALUE_SCHEMA,
}
_ANNOTATIONS: JsonObject = {**_LABELS, "additionalProperties": {"type": "string"}}
_IGNORED: JsonObject = {
    "^managedFields$": {"type": "array", "description": "Managers of the fields, in exports only."}
}
"""No property of its own: clients such as Terraform have no such field."""
_READER = DocstringReader()
_BY_ID = re.compile(r"\AID(s?) of")


def json_schema(kind: AnyKind, codec: SpecCodec) -> JsonObject:
    """Returns the JSON Schema of the documents of a kind.

    Types of plug-ins stand in `$defs`, because some of them contain each other.
    """
    metadata: JsonObject = {
        "name": {**kind.name_form.schema, "description": "Name of the resource."},
        "labels": {**_LABELS, "description": "Labels of the manifest."},
        "annotations": {**_ANNOTATIONS, "description": "Annotations of the manifest."},
    }
    required = ["name"]
    if kind.scope:
        text = f"Name of the {kind.scope.lower()}."
        metadata[kind.scope.lower()] = {"type": "string", "description": text}
        required.append(kind.scope.lower())
    if kind.has_project:
        text = "Name of the project of a new resource."
        metadata["project"] = {"type": "string", "description": text}
        if kind.default_project == DEFAULT_PROJECT:
            metadata["project"]["default"] = "default"
    types = _SpecTypes(codec)
    spec = types.fields(codec.by_name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.name,
        "description": _READER.of_class(type(kind)),
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind.name},
            "metadata": {**_object_schema(metadata, required), "patternProperties": _IGNORED},
            "spec": spec,
        },
        **({"$defs": types.shared} if types.shared else {}),
    }


class _SpecTypes:
    """Schemas of the types in the spec of a kind; `shared` has those that references name."""

    def __init__(self, codec: SpecCodec) -> None:
        self._codec = codec
        self.shared: JsonObject = {}

    def fields(self, fields: Mapping[str, SpecField]) -> JsonObject:
        properties = {name: self._field_schema(field) for name, field in fields.items()}
        return _object_schema(
            properties, [name for name, field in fields.items() if field.required]
        )

    def _field_schema(self, field: SpecField) -> JsonObject:
        description = _READER.of_member(field.owner, field.attribute)
        if field.family:
            by_name = _BY_ID.sub(r"Name\1 of", description)
            description = by_name if by_name != description else f"{description} By name.".strip()
        schema = self._type_schema(field.hint)
        if field in self._codec.immutable:
            description = f"{description} Cannot be changed.".strip()
            schema["x-immutable"] = True
        if field in self._codec.fields:
            schema |= self._list_order(field)
        if field.is_sensitive:
            schema = {**self._secret_schema(schema), "writeOnly": True}
        if field.is_destination:
            schema["x-destination"] = True
        return {**schema, "description": " ".join(description.split())} if description else schema

    def _type_schema(self, hint: Any) -> JsonObject:
        inner = unwrapped(hint)
        origin = get_origin(inner)
        if origin in SEQUENCE_TYPES:
            items = self._type_schema(get_args(inner)[0])
            is_set = origin in (frozenset, Set)
            return {"type": "array", "items": items, **({"uniqueItems": True} if is_set else {})}
        if origin in MAPPING_TYPES:
            item = self._type_schema(item_type(inner))
            return {"type": "object", "additionalProperties": item or True}
        if inner in self._codec.kind.plugins:
            return self._plugin_reference(inner)
        if is_dataclass(inner):
            return self.fields(self._codec.inner_fields(inner))
        if isinstance(inner, type) and issubclass(inner, Enum):
            return {"type": "string", "enum": list(inner.__members__)}
        if inner in JSON_TYPES:
            return {"type": JSON_TYPES[inner]}
        return {}

    def _list_order(self, field: SpecField) -> JsonObject:
        """Marks a list without an order; that of named items as Kubernetes does."""
        key = self._codec.kind.unordered.get(field.attribute)
        if key is None:
            return {}
        named = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
        return named if key else {"uniqueItems": True}

    def _secret_schema(self, schema: JsonObject) -> JsonObject:
        """Returns the schema of secret texts: sealed, or read by clients, or as they are."""
        if "additionalProperties" in schema:
            inner = self._secret_schema(schema["additionalProperties"])
            return {**schema, "additionalProperties": inner}
        self.shared[_SECRET] = {"oneOf": [schema, *_SOURCES]}
        return {"$ref": f"#/$defs/{_SECRET}"}

    def _plugin_reference(self, base: type) -> JsonObject:
        if base.__name__ not in self.shared:
            # Its own plug-ins may refer to it.
            self.shared[base.__name__] = {}
            kinds = self._codec.kind.plugins[base]
            options = [self._plugin_schema(kinds[name]) for name in sorted(kinds)]
            self.shared[base.__name__] = {"oneOf": options}
        return {"$ref": f"#/$defs/{base.__name__}"}

    def _plugin_schema(self, plugin: type[Plugin]) -> JsonObject:
        settings = self.fields(self._codec.inner_fields(plugin))
        kind = {"const": plugin.kind, "description": plugin.summary()}
        if key := settings_key(plugin):
            return _object_schema({"kind": kind, key: settings}, ["kind"])
        required = [name for name in settings["required"] if name != "kind"]
        return _object_schema({"kind": kind, **settings["properties"]}, ["kind", *required])


def _object_schema(properties: JsonObject, required: list[str]) -> JsonObject:
    return {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": properties,
    }


_SECRET = "SecretText"
_SOURCES = [
    _object_schema({name: {"type": "string", "description": text}}, [name])
    for name, text in (
        ("env", "Environment variable of `towline apply` that has the value."),
        ("file", "File that has the value. `towline apply` reads it, beside the manifest."),
        (SEALED, "Value that `towline secrets seal-manifests` sealed for this field."),
    )
]
