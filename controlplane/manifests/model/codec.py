"""The specs of kinds as JSON: strict checks, decoding, encoding and JSON Schemas.

Everything is derived from the dataclasses of changes. References are names here, and IDs there.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, Field, dataclass, is_dataclass, replace
from datetime import UTC, date, datetime, time
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from controlplane.manifests.model.ownership import merged
from controlplane.platform.kinds import AnyKind
from controlplane.platform.parts import Columns, column_values, default_of, part_fields
from controlplane.platform.plugin_settings import (
    Form,
    Plugin,
    SettingField,
    camel,
    setting_fields,
)
from controlplane.platform.time_text import parse_time
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.sealed_places import SEALED

Hint = Any
"""A type as `get_type_hints` returns it, such as a class, a union or `Mapping[str, int]`."""
Path = tuple[str | int, ...]
"""Keys and positions that lead to a value of a document."""
Report = Callable[[Path, str], None]
"""Receives a problem and its place."""
Translate = Callable[[str, str], str]
"""Returns the name of an ID of a family, or its ID by name."""
SEQUENCE_TYPES = (tuple, list, frozenset, Sequence, Collection, Set)
MAPPING_TYPES = (dict, Mapping)
TIME_TYPES = (datetime, date, time)
VALUE_SOURCES = frozenset({"env", "file"})
"""Sources of secret values that clients read before they send a document."""
_NAMES_OF_TYPES: Mapping[type, str] = {
    str: "text; quote it", int: "a whole number", float: "a number", bool: "true or false",
}  # fmt: skip
JSON_TYPES: Mapping[type, str] = {
    **{str: "string", int: "integer", float: "number", bool: "boolean"},
    **dict.fromkeys((datetime, date, time), "string"),
}
_FAMILIES = {
    "project": "Project",
    "cluster": "Cluster",
    "repository": "Repository",
    "service": "Service",
    "secret": "Secret",
    "context": "Context",
    "pipeline": "Pipeline",
    "cluster_group": "ClusterGroup",
}
_FORM_FAMILIES = {
    Form.CLUSTER: "Cluster",
    Form.REPOSITORY: "Repository",
    Form.SERVICE_ACCOUNT: "User",
}


class SpecField(NamedTuple):
    """One field of a spec; `family` is set for a reference."""

    attribute: str
    published: str
    hint: Hint
    owner: type
    default: Any
    family: str = ""
    is_sensitive: bool = False
    is_destination: bool = False
    """True if the field tells who receives the secrets beside it."""

    @property
    def required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True)
class SpecCodec:
    """Converts the specs of one kind. `kind` declares what the types do not tell.

    With `reveals`, encoded specs contain plain secrets: the caller must replace them.
    """

    kind: type[AnyKind]
    reveals: bool = False

    @cached_property
    def fields(self) -> tuple[SpecField, ...]:
        """Returns the fields of the spec, in the order of the dataclass."""
        change = self.kind.change
        return tuple(
            self._spec_field(member, owner, _type_hints(owner)[member.name])
            for _, owner, member in part_fields(change)
            if member.name not in self.kind.hidden
        )

    @cached_property
    def by_name(self) -> Mapping[str, SpecField]:
        """Returns the fields of the spec by their published names."""
        return {field.published: field for field in self.fields}

    def check(self, spec: JsonMapping, report: Report) -> JsonObject:
        """Returns a spec in normal form; reports unknown fields and values of wrong types."""
        checked = self._check_fields(self.by_name, spec, ("spec",), report)
        for attribute, key in self.kind.unordered.items():
            name = self._published_by_attribute[attribute]
            if isinstance(items := checked.get(name), list):
                checked[name] = sorted(items, key=lambda item: str(_sort_value(item, key)))
        return checked

    @cached_property
    def _published_by_attribute(self) -> Mapping[str, str]:
        return {field.attribute: field.published for field in self.fields}

    def decode(self, name: str, value: JsonValue, translate: Translate) -> Any:
        """Returns the value of a field of the change, with IDs instead of names."""
        field = self.by_name[name]
        return self._decode(field.hint, value, field.family, translate)

    def decode_columns(self, values: JsonMapping, translate: Translate) -> Columns:
        """Returns the fields of the change, with IDs instead of names."""
        return {
            self.by_name[name].attribute: self.decode(name, value, translate)
            for name, value in values.items()
        }

    def without_incomplete(self, spec: JsonMapping, present: JsonMapping) -> JsonObject:
        """Returns a spec without inner objects that lack a required field, after a reset of others.

        Such an object has left the document of its manager, except for fields with a default. A
        field of the spec itself that has none keeps its `present` value.
        """
        completed: JsonObject = {}
        for name, value in spec.items():
            hint = self.by_name[name].hint
            kept = value if self._is_complete(hint, value) else present[name]
            completed[name] = self._without_incomplete(hint, kept)
        return completed

    def _is_complete(self, hint: Hint, value: JsonValue) -> bool:
        if not isinstance(value, dict):
            return True
        if unwrapped(hint) in self.kind.plugins:
            return "kind" in value
        required = {field.published for field in self.inner_fields(hint).values() if field.required}
        return value.keys() >= required

    def _without_incomplete(self, hint: Hint, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict) or unwrapped(hint) in self.kind.plugins:
            return value
        fields, kept = self.inner_fields(hint), {}
        for name, inner in value.items():
            inner_hint = fields[name].hint if fields else item_type(unwrapped(hint))
            if self._is_complete(inner_hint, inner):
                kept[name] = self._without_incomplete(inner_hint, inner)
        return kept

    def encode(self, columns: Columns, translate: Translate) -> JsonObject:
        """Returns the spec of a resource, without absent values, and sensitive ones by default."""
        return self._encode_fields(self.fields, columns, translate)

    def references(self, spec: JsonMapping) -> Iterator[tuple[str, str]]:
        """Yields family and name of each reference in a checked spec.

        A name that is no text is left out: `check` has reported it.
        """
        references: list[tuple[str, str]] = []

        def collect(family: str, name: JsonValue) -> JsonValue:
            if isinstance(name, str):
                references.append((family, name))
            return name

        for field in self._reference_fields:
            if field.published in spec:
                self.decode(field.published, spec[field.published], collect)
        return iter(references)

    def ids(self, columns: Columns) -> list[tuple[str, str]]:
        """Returns family and ID of each reference of a resource."""
        references: list[tuple[str, str]] = []

        def collect(family: str, id: str) -> str:
            references.append((family, id))
            return id

        self._encode_fields(self._reference_fields, columns, collect)
        return references

    @cached_property
    def _reference_fields(self) -> tuple[SpecField, ...]:
        """Returns the fields that refer to other resources, themselves or in their values."""
        return tuple(
            f for f in self.fields if self._contains_references(f.hint, f.family, frozenset())
        )

    def _contains_references(self, hint: Hint, family: str, outer: frozenset[Hint]) -> bool:
        """Returns whether values of a type refer to resources; `outer` are the types around it."""
        inner = unwrapped(hint)
        if family or inner in outer:
            return bool(family)
        if _generic_type(hint):
            return any(self._contains_references(item, "", outer) for item in get_args(inner))
        plugins = self.kind.plugins.get(inner, {}).values()
        kinds = (*plugins, inner)
        fields = [field for kind in kinds for field in self.inner_fields(kind).values()]
        return any(
            self._contains_references(field.hint, field.family, outer | {inner}) for field in fields
        )

    @cached_property
    def secret_names(self) -> frozenset[str]:
        """Returns the names of fields that are never returned."""
        plugins = [plugin for kinds in self.kind.plugins.values() for plugin in kinds.values()]
        inner = [field for plugin in plugins for field in self.inner_fields(plugin).values()]
        declared = frozenset(camel(name) for name in self.kind.sensitive)
        return declared.union(f.published for f in (*self.fields, *inner) if f.is_sensitive)

    @cached_property
    def revealing(self) -> "SpecCodec":
        """Returns the codec that encodes plain secrets as well."""
        return replace(self, reveals=True)

    @cached_property
    def immutable(self) -> tuple[SpecField, ...]:
        """Returns the fields that only the creation of a resource sets."""
        return tuple(f for f in self.fields if f.attribute in self.kind.immutable)

    @cached_property
    def defaults(self) -> JsonObject:
        """Returns the values of a resource whose spec is empty."""
        columns = {f.attribute: None if f.required else f.default for f in self.fields}
        return self.encode(columns | self.kind.defaults(), _untranslated)

    def inner_fields(self, hint: Hint) -> Mapping[str, SpecField]:
        """Returns the fields of a nested object by their published names; none for other types."""
        inner, cache = unwrapped(hint), self._fields_by_type
        if not is_dataclass(inner):
            return {}
        if inner not in cache:
            cache[inner] = {field.published: field for field in self._derive_fields(inner)}
        return cache[inner]

    def _spec_field(self, member: Field[Any], owner: type, hint: Hint) -> SpecField:
        keys = _declaration_keys(owner, member)
        hints, references = self.kind.hints, self.kind.references
        hint = next((hints[key] for key in keys if key in hints), hint)
        family = next((references[key] for key in keys if key in references), "")
        name = self.kind.rename.get(member.name, member.name)
        for ending, plural in (("_ids", "s"), ("_id", "")):
            stem = name.removesuffix(ending)
            if not family and stem != name and (known_family := _FAMILIES.get(stem)):
                family, name = known_family, stem + plural
        if family:
            name = name.removesuffix("_id")
        if name.endswith("_s"):
            name = f"{name}econds"
        return SpecField(
            member.name, camel(name), hint, owner, default_of(member), family,
            member.name in self.kind.sensitive,
            any(key in self.kind.destinations for key in keys),
        )  # fmt: skip

    @cached_property
    def _fields_by_type(self) -> dict[Hint, Mapping[str, SpecField]]:
        return {}

    def _derive_fields(self, kind: type[Any]) -> list[SpecField]:
        members = setting_fields(kind) if issubclass(kind, Plugin) else ()
        plugin_fields = [_setting_field(kind, member) for member in members]
        settings = {field.attribute for field in plugin_fields}
        return plugin_fields + [
            self._spec_field(member, owner, _type_hints(owner)[member.name])
            for _, owner, member in part_fields(kind)
            if member.name not in settings
            and not any(key in self.kind.hidden for key in _declaration_keys(owner, member))
        ]

    def _check_fields(
        self, fields: Mapping[str, SpecField], value: JsonValue, path: Path, report: Report
    ) -> JsonObject:
        if not isinstance(value, dict):
            report(path, "must be an object")
            return {}
        checked: JsonObject = {}
        for name, inner in value.items():
            field = fields.get(name)
            if field is None:
                report((*path, name), unknown_field(name, fields))
            elif inner is not None:
                check = self._check_secret if field.is_sensitive else self._check
                checked[name] = check(field.hint, inner, (*path, name), report)
        return checked

    def _check_secret(self, hint: Hint, value: JsonValue, path: Path, report: Report) -> JsonValue:
        """Checks a secret, which can be sealed; of a mapping, each value."""
        if is_secret_map(hint) and isinstance(value, dict):
            item = item_type(unwrapped(hint))
            return {k: self._check_secret(item, v, (*path, k), report) for k, v in value.items()}
        return value if is_sealed(value) else self._check(hint, value, path, report)

    def _check(self, hint: Hint, value: JsonValue, path: Path, report: Report) -> JsonValue:
        inner, origin = unwrapped(hint), _generic_type(hint)
        if origin in SEQUENCE_TYPES:
            return self._check_list(get_args(inner)[0], value, path, report)
        if origin in MAPPING_TYPES:
            return self._check_map(inner, value, path, report)
        if inner in self.kind.plugins:
            return self._check_plugin(inner, value, path, report)
        if is_dataclass(inner):
            return self._check_fields(self.inner_fields(inner), value, path, report)
        return _check_plain(inner, value, path, report)

    def _check_list(
        self, item: Hint, value: JsonValue, path: Path, report: Report
    ) -> list[JsonValue]:
        if not isinstance(value, list):
            report(path, "must be a list")
            return []
        wrong: list[Path] = []

        def report_wrong(wrong_path: Path, message: str) -> None:
            wrong.append(wrong_path)
            report(wrong_path, message)

        checked = [self._check(item, v, (*path, n), report_wrong) for n, v in enumerate(value)]
        if wrong:
            return checked
        return [
            self._with_item_defaults(item, v, (*path, n), report) for n, v in enumerate(checked)
        ]

    def _with_item_defaults(
        self, hint: Hint, value: JsonValue, path: Path, report: Report
    ) -> JsonValue:
        """Adds the defaults to an item of a list: lists are compared as a whole."""
        if not self.inner_fields(hint):
            return value
        try:
            decoded = self._decode(hint, value, "", _untranslated)
        except Invalid as error:
            report(path, error.message)
            return value
        # Encoding drops secrets: the given values win.
        return merged(self._encode(hint, decoded, "", _untranslated), value)

    def _check_map(self, hint: Hint, value: JsonValue, path: Path, report: Report) -> JsonObject:
        if not isinstance(value, dict):
            report(path, "must be an object")
            return {}
        item = item_type(hint)
        return {k: self._check(item, v, (*path, k), report) for k, v in value.items()}

    def _check_plugin(self, base: type, value: JsonValue, path: Path, report: Report) -> JsonObject:
        kinds = self.kind.plugins.get(base, {})
        kind_name = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind_name, str) or kind_name not in kinds:
            names = ", ".join(sorted(kinds))
            report((*path, "kind"), f"{str(kind_name)[:80]!r} is not one of {names}")
            return {}
        plugin = kinds[kind_name]
        fields, key = self.inner_fields(plugin), settings_key(plugin)
        if key:
            inner = self._check_fields(fields, value.get(key, {}), (*path, key), report)
            for name in value.keys() - {"kind", key}:
                report((*path, name), unknown_field(name, ["kind", key]))
            return {"kind": kind_name, key: inner}
        settings = {name: inner for name, inner in value.items() if name != "kind"}
        return {"kind": kind_name, **self._check_fields(fields, settings, path, report)}

    def _decode(self, hint: Hint, value: JsonValue, family: str, translate: Translate) -> Any:
        if value is None:
            return None
        inner, origin = unwrapped(hint), _generic_type(hint)
        if origin in SEQUENCE_TYPES:
            collect = origin if origin in (tuple, list, frozenset) else tuple
            item = get_args(inner)[0]
            return collect([self._decode(item, element, family, translate) for element in value])
        if origin in MAPPING_TYPES:
            item = item_type(inner)
            return {k: self._decode(item, v, family, translate) for k, v in value.items()}
        if family:
            return translate(family, value)
        if inner in self.kind.plugins:
            plugin = self.kind.plugins[inner][value["kind"]]
            key = settings_key(plugin)
            settings = value.get(key, {}) if key else value
            return self._decode_object(plugin, settings, translate)
        if is_dataclass(inner):
            return self._decode_object(inner, value, translate)
        if isinstance(inner, type) and issubclass(inner, Enum):
            return inner[value]
        if inner in TIME_TYPES:
            return inner.fromisoformat(value)
        return value

    def _decode_object(self, kind: type, value: JsonMapping, translate: Translate) -> Any:
        decoded = {
            name: self._decode(field.hint, value[published], field.family, translate)
            for published, field in self.inner_fields(kind).items()
            if published in value
            for name in (field.attribute,)
        }
        if kind in self.kind.mappings:
            return decoded
        missing = [f.published for f in self.inner_fields(kind).values()
                   if f.required and f.attribute not in decoded]  # fmt: skip
        if missing:
            raise Invalid(f"needs the field {missing[0]}")
        return self.kind.build_change(kind, decoded)

    def _encode_fields(
        self, fields: Iterable[SpecField], value: JsonValue, translate: Translate
    ) -> JsonObject:
        encoded: JsonObject = {}
        columns = value if isinstance(value, Mapping) else column_values(value)
        for field in fields:
            inner = columns.get(field.attribute)
            if inner is not None and (self.reveals or not field.is_sensitive):
                encoded[field.published] = self._encode(field.hint, inner, field.family, translate)
        return encoded

    def _encode(self, hint: Hint, value: JsonValue, family: str, translate: Translate) -> Any:
        if value is None:
            return None
        inner, origin = unwrapped(hint), _generic_type(hint)
        if origin in SEQUENCE_TYPES:
            item = get_args(inner)[0]
            elements = [self._encode(item, element, family, translate) for element in value]
            return sorted(elements) if origin is frozenset else elements
        if origin in MAPPING_TYPES:
            item = item_type(inner)
            return {k: self._encode(item, value[k], family, translate) for k in sorted(value)}
        if family:
            return translate(family, value)
        if inner in self.kind.plugins:
            settings = self._encode_fields(
                self.inner_fields(type(value)).values(), value, translate
            )
            key = settings_key(type(value))
            return {"kind": value.kind, **({key: settings} if key else settings)}
        if is_dataclass(inner):
            return self._encode_fields(self.inner_fields(inner).values(), value, translate)
        if isinstance(value, Enum):
            return value.name
        return _time_text(value) if isinstance(value, TIME_TYPES) else value


def is_sealed(value: JsonValue) -> bool:
    """Returns whether a value of a secret field is sealed: `{sealed: TEXT}`."""
    return isinstance(value, dict) and value.keys() == {SEALED} and isinstance(value[SEALED], str)


def is_secret_map(hint: Hint) -> bool:
    """Returns whether a secret field has a value for each of several keys."""
    return _generic_type(hint) in MAPPING_TYPES


@cache
def unwrapped(hint: Hint) -> Hint:
    """Returns a type without `None`, and the base of a new type."""
    if get_origin(hint) in (UnionType, Union):
        (hint,) = (member for member in get_args(hint) if member is not NoneType)
    return getattr(hint, "__supertype__", hint)


@cache
def _generic_type(hint: Hint) -> Hint:
    """Returns the generic type of a collection, such as `list` of `list[str]`; None for others."""
    return get_origin(unwrapped(hint))


def settings_key(plugin: type[Plugin]) -> str:
    """Returns the field that has the settings of a plug-in; empty if they stand beside its kind."""
    return camel(plugin.key)


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Returns the problem of a field that does not exist, with the nearest name."""
    names = list(known)
    nearest = difflib.get_close_matches(str(name), names, 1, 0.5)
    advice = (
        f"did you mean {nearest[0]}?" if nearest else f"use one of {', '.join(sorted(names)[:40])}"
    )
    return f"unknown field {str(name)[:80]!r}; {advice}"


def _check_plain(hint: Hint, value: JsonValue, path: Path, report: Report) -> JsonValue:
    if isinstance(hint, type) and issubclass(hint, Enum):
        if not isinstance(value, str) or value not in hint.__members__:
            names = ", ".join(hint.__members__)
            report(path, f"{str(value)[:80]!r} is not one of {names}")
        return value
    if hint in TIME_TYPES:
        return _check_time(hint, value, path, report)
    if hint is float and type(value) is int:
        return value
    if hint in _NAMES_OF_TYPES and type(value) is not hint:
        report(path, f"must be {_NAMES_OF_TYPES[hint]}{_hint_on_sources(value)}")
    return value


def _hint_on_sources(value: JsonValue) -> str:
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= VALUE_SOURCES:
        return "; only `towline apply` reads `env` and `file`, and only for secret fields"
    if is_sealed(value):
        return "; only secret fields take a sealed value"
    return ""


def _check_time(hint: Hint, value: JsonValue, path: Path, report: Report) -> JsonValue:
    try:
        parsed = parse_time(value) if hint is datetime else hint.fromisoformat(value)
    except (TypeError, ValueError):
        report(path, "must be a date or time in ISO 8601, such as '2026-01-31T09:30:00Z'")
        return value
    if isinstance(parsed, datetime) and parsed.tzinfo is None:
        report(path, f"needs a time zone (RFC 3339), such as '{parsed.isoformat()}Z'")
        return value
    return _time_text(parsed)


def _time_text(value: date | time) -> str:
    """Returns a date or time in ISO 8601; a moment in UTC, with `Z`."""
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _setting_field(plugin: type[Plugin], member: SettingField) -> SpecField:
    form = member.setting.form
    family = _FORM_FAMILIES.get(form, "")
    published = member.published.removesuffix("Id") if family else member.published
    return SpecField(
        member.name, published, member.type, plugin, member.default, family, form is Form.SECRET,
        member.name in plugin.destinations,
    )  # fmt: skip


def _declaration_keys(owner: type, member: Field[Any]) -> list[str]:
    """Returns the names by which kinds declare something about a field of a class."""
    return [f"{base.__name__}.{member.name}" for base in reversed(owner.__mro__)]


def _sort_value(item: JsonValue, key: str) -> JsonValue:
    return item.get(key) if key and isinstance(item, dict) else item


def _untranslated(_family: str, name: str) -> str:
    return name


def item_type(mapping: Hint) -> Hint:
    """Returns the type of the values of a mapping."""
    return (*get_args(mapping), Any, Any)[1]


@cache
def _type_hints(kind: type) -> Mapping[str, Hint]:
    return get_type_hints(kind)
