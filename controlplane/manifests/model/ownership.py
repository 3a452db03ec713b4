"""Managers of the fields of resources, and the merge of specs."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from core.json_object import JsonMapping, JsonObject, JsonValue

SEPARATOR = "/"
_SOURCE_PREFIX = "git source "


def source_manager(name: str) -> str:
    """Returns the manager of the fields that a configuration source applies."""
    return _SOURCE_PREFIX + name


def is_source_manager(manager: str) -> bool:
    """Returns whether a manager is a configuration source."""
    return manager.startswith(_SOURCE_PREFIX)


def source_of(manager: str) -> str:
    """Returns the name of the configuration source; empty for other managers."""
    return manager.removeprefix(_SOURCE_PREFIX) if is_source_manager(manager) else ""


@dataclass(frozen=True, slots=True)
class AppliedBy:
    """The last apply of one manager to one resource."""

    fields: tuple[str, ...] = ()
    """Paths of the fields that the manager set."""
    document: str = ""
    """Digest of the spec that the manager applied, encrypted: the spec may contain secrets."""
    state: str = ""
    """Digest of these fields of the resource after the apply."""


@dataclass(frozen=True, slots=True)
class DeclaredResource:
    """A resource that a manifest describes; its id is that of the resource."""

    id: str
    kind: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the manifest."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the manifest."""
    managers: Mapping[str, AppliedBy] = field(default_factory=dict)
    """Last apply of each manager."""
    prune_set: str = ""
    """Set to which the resource belongs. Empty: none."""
    sealed: Mapping[str, str] = field(default_factory=dict)
    """Sealed values of secret fields, by their paths."""

    @property
    def metadata(self) -> tuple[object, ...]:
        """Returns everything but the owners of fields."""
        return self.labels, self.annotations, self.prune_set

    @property
    def managed_fields(self) -> list[JsonObject]:
        """Returns the fields of each manager that has some, such as `spec.helm.values`."""
        return [
            {
                "manager": name,
                "fields": [
                    ".".join(("spec", *map(_unescape, path.split(SEPARATOR)[1:])))
                    for path in sorted(applied.fields)
                ],
            }
            for name, applied in sorted(self.managers.items())
            if applied.fields
        ]

    def owners(self, path: str, manager: str) -> list[str]:
        """Returns the other managers that set a field, or a part of it."""
        return sorted(
            name
            for name, applied in self.managers.items()
            if name != manager
            and any(_paths_overlap(path, field_path) for field_path in applied.fields)
        )

    def without_manager(self, manager: str) -> "DeclaredResource":
        """Returns the resource as if the manager had never applied it."""
        managers = {name: applied for name, applied in self.managers.items() if name != manager}
        prune_set = "" if self.prune_set == manager else self.prune_set
        return replace(self, managers=managers, prune_set=prune_set)


def leaves(spec: JsonMapping, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yields the path and value of each field; lists and empty objects are one value."""
    for name, value in spec.items():
        path = prefix + SEPARATOR + _escape(name)
        if isinstance(value, dict) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def merged(before: JsonMapping, given: JsonMapping) -> JsonObject:
    """Returns a spec with the given fields; objects are merged, lists replaced."""
    result = dict(before)
    for name, value in given.items():
        present = result.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            result[name] = merged(present, value)
        else:
            result[name] = value
    return result


def without(
    spec: JsonObject, paths: Collection[str], defaults: JsonMapping, *, is_whole: bool = False
) -> JsonObject:
    """Returns a spec in which the fields have their defaults again.

    `is_whole`: the operation takes all fields, so that those without a default can be absent.
    """
    for path in paths:
        keys = [_unescape(key) for key in path.split(SEPARATOR)[1:]]
        spec = _reset_field(spec, keys, defaults, is_map=is_whole)
    return spec


def digest(value: object) -> str:
    """Returns the digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _reset_field(
    spec: JsonObject, keys: list[str], defaults: JsonValue, *, is_map: bool = False
) -> JsonObject:
    head, *rest = keys
    if head not in spec:
        return spec
    default = defaults.get(head) if isinstance(defaults, Mapping) else None
    changed = dict(spec)
    if rest and isinstance(spec[head], dict):
        changed[head] = _reset_field(spec[head], rest, default, is_map=True)
    elif default is not None:
        changed[head] = default
    elif is_map:
        del changed[head]
    return changed


def _paths_overlap(path: str, other: str) -> bool:
    return path == other or path.startswith(other + SEPARATOR) or other.startswith(path + SEPARATOR)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescape(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")
