"""Differences between two bundles: objects, and fields by JSON pointer (RFC 6901).

Values of Secrets are masked, in `data` as in kubectl's last-applied annotation. The diff shows
only that they differ.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import orjson

from core.json_differences import MISSING, FieldDifference, differing_fields, json_pointer
from core.spec.bundle import Bundle, KubeObject
from core.spec.objects import FieldChange

MASKED = "(masked)"
MAX_OBJECTS = 500
MAX_FIELDS = 200
MAX_TEXT = 2000

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Key = tuple[str, str, str, str]


class ObjectChangeKind(StrEnum):
    """Kind of change to an object."""

    ADDED = "added"
    """The object is new."""
    REMOVED = "removed"
    """The object no longer exists."""
    CHANGED = "changed"
    """Fields of the object differ."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that differs."""

    change: ObjectChangeKind
    """Kind of change."""
    api_version: str
    """API version, such as `apps/v1`."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str
    """Namespace. Empty for a cluster-scoped object."""
    name: str
    """Name."""
    fields: tuple[FieldChange, ...] = ()
    """Fields that differ."""
    more: int = 0
    """Number of further fields that are not listed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences of two bundles. The counts are complete; `objects` is bounded and sorted."""

    added: int = 0
    """Number of new objects."""
    removed: int = 0
    """Number of removed objects."""
    changed: int = 0
    """Number of changed objects."""
    objects: tuple[ObjectChange, ...] = ()
    """Objects that differ."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare_bundles(
    old: Bundle | None, new: Bundle | None, *, max_objects: int = MAX_OBJECTS
) -> Difference:
    """Compares two bundles (None: empty) and lists at most `max_objects` objects."""
    before, after = _objects_by_key(old), _objects_by_key(new)
    counts = dict.fromkeys(ObjectChangeKind, 0)
    changes = []
    for key in sorted({*before, *after}):
        change = _change_kind(before.get(key), after.get(key))
        if change is None:
            continue
        counts[change] += 1
        if len(changes) < max_objects:
            changes.append(_object_change(change, before.get(key), after.get(key)))
    return Difference(
        counts[ObjectChangeKind.ADDED],
        counts[ObjectChangeKind.REMOVED],
        counts[ObjectChangeKind.CHANGED],
        tuple(changes),
    )


def mask_secrets(kube_object: KubeObject) -> KubeObject:
    """Copies an object, with masked values of a Secret and of the last-applied annotation."""
    group, kind, _, _ = _object_key(kube_object)
    masked = _without_secrets(kube_object)
    assert isinstance(masked, dict)
    if kind == "Secret" and not group:
        for part in ("data", "stringData"):
            if isinstance(masked.get(part), dict):
                masked[part] = dict.fromkeys(masked[part], MASKED)
    return masked


def _objects_by_key(bundle: Bundle | None) -> dict[Key, KubeObject]:
    return {_object_key(obj): obj for obj in bundle.objects()} if bundle is not None else {}


def _object_key(kube_object: KubeObject) -> Key:
    """Identity of an object, without its API version: a version upgrade is a change."""
    metadata = kube_object.get("metadata") or {}
    group = str(kube_object.get("apiVersion", "")).rpartition("/")[0]
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    return (group, str(kube_object.get("kind", "")), str(namespace), str(name))


def _change_kind(old: KubeObject | None, new: KubeObject | None) -> ObjectChangeKind | None:
    if old is None:
        return ObjectChangeKind.ADDED
    if new is None:
        return ObjectChangeKind.REMOVED
    return ObjectChangeKind.CHANGED if _canonical(old) != _canonical(new) else None


def _canonical(value: object) -> bytes:
    """Canonical JSON: 1 and true are equal in Python, but not in JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _object_change(
    change: ObjectChangeKind, old: KubeObject | None, new: KubeObject | None
) -> ObjectChange:
    kube_object = new if new is not None else old or {}
    group, kind, namespace, name = _object_key(kube_object)
    differences = list(differing_fields(old, new)) if old is not None and new is not None else []
    return ObjectChange(
        change,
        str(kube_object.get("apiVersion", "")),
        kind,
        namespace,
        name,
        tuple(_mask_fields(kube_object, group, kind, differences[:MAX_FIELDS])),
        max(0, len(differences) - MAX_FIELDS),
    )


def _mask_fields(
    kube_object: Mapping[str, object],
    group: str,
    kind: str,
    differences: Iterable[FieldDifference],
) -> Iterator[FieldChange]:
    is_secret = kind == "Secret" and not group
    secret_fields = ("/data", "/stringData") if is_secret else ()
    last_applied = json_pointer(("metadata", "annotations", _LAST_APPLIED))
    for path, old, new in differences:
        pointer = json_pointer(path)
        if pointer == last_applied or any(
            pointer == top or pointer.startswith(f"{top}/") for top in secret_fields
        ):
            yield FieldChange(pointer, _mask_value(old), _mask_value(new))
        else:
            yield FieldChange(pointer, _shortened_json(old), _shortened_json(new))


def _mask_value(value: object) -> str:
    return "" if value is MISSING else MASKED


def _shortened_json(value: object) -> str:
    if value is MISSING:
        return ""
    text = orjson.dumps(_without_secrets(value)).decode()
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _without_secrets(value: object) -> object:
    """Masks the last-applied annotation in a value that was added as a whole."""
    if isinstance(value, dict):
        return {
            key: MASKED if key == _LAST_APPLIED else _without_secrets(inner)
            for key, inner in value.items()
        }
    return [_without_secrets(inner) for inner in value] if isinstance(value, list) else value
