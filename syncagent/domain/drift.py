"""Drift detection: compares the applied fields of an object with the live ones, and finds who
changed them.
The API server rewrites its input (quantities, defaults), so a manifest cannot be compared with a
live object directly. Drift detection projects the live object onto the manifest's shape and
compares the result with the projection made right after our own apply.
"""

from collections.abc import Iterator, Sequence

import orjson

from core.spec.objects import FieldChange
from core.spec.projection import index_by_name, project
from syncagent.domain.field_change import field_change, is_secret, limit_changes
from syncagent.domain.json_pointers import MISSING, find, pointer_of
from syncagent.domain.objects import KubeFields, KubeObject, metadata_of
from syncagent.domain.ownership import FIELD_MANAGER, fingerprint

Path = tuple[str, ...]

_COUNTED = {("metadata", name) for name in ("managedFields", "resourceVersion", "generation")}


def live_digest(manifest: KubeObject, live: KubeObject) -> str:
    """Returns a digest of the manifest's fields in the live object."""
    return fingerprint(project(manifest, live))


def changed_paths(before: object, after: object) -> list[Path]:
    """Lists the paths where two projections differ, outermost first."""
    return list(_differences(before, after, ()))


def field_changes(before: KubeObject, after: KubeObject) -> tuple[FieldChange, ...]:
    """Lists the differences between two states of an object, without server counters and our labels
    and annotations.
    """
    masked = is_secret(before)
    return limit_changes(
        [
            field_change(
                pointer_of(_steps_without_brackets(path)),
                _value_at(before, path),
                _value_at(after, path),
                masked=masked,
                absent=MISSING,
            )
            for path in _differences(before, after, ())
            if not _is_bookkeeping(path)
        ]
    )


def format_path(path: Path) -> str:
    """Formats a path: `spec.template.spec.containers[name=web].image`."""
    text = ""
    for step in path:
        text += step if step.startswith("[") else f".{step}"
    return text.removeprefix(".")


def foreign_manager(live: KubeObject, paths: Sequence[Path]) -> str:
    """Finds the field manager that most likely made a change: it owns the path, or wrote last."""
    entries = [
        entry
        for entry in metadata_of(live).get("managedFields") or ()
        if entry.get("manager") != FIELD_MANAGER and entry.get("subresource") != "status"
    ]
    if not entries:
        return ""

    def likelihood(entry: KubeFields) -> tuple[int, str]:
        depth = max((_owned_depth(entry.get("fieldsV1") or {}, path) for path in paths), default=0)
        return depth, entry.get("time") or ""

    return max(entries, key=likelihood).get("manager") or ""


def _value_at(value: object, path: Path) -> object:
    for step in path:
        value = find(value, (step[6:-1] if step.startswith("[name=") else step.strip("[]"),))
    return value


def _steps_without_brackets(path: Path) -> list[str]:
    return [
        step.removeprefix("[name=").strip("[]") if step.startswith("[") else step for step in path
    ]


def _is_bookkeeping(path: Path) -> bool:
    if path[0] == "status" or path[:2] in _COUNTED:
        return True
    return path[0] == "metadata" and path[-1].startswith("towline.dev/")


def _differences(before: object, after: object, path: Path) -> Iterator[Path]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            yield from _differences(before.get(name), after.get(name), (*path, name))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_differences(before, after, path)
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        # Python's False equals 0; in a cluster it does not.
        yield path


def _list_differences(before: list[object], after: list[object], path: Path) -> Iterator[Path]:
    old, new = index_by_name(before), index_by_name(after)
    if old is not None and new is not None:
        for name in old.keys() | new.keys():
            yield from _differences(old.get(name), new.get(name), (*path, f"[name={name}]"))
    elif len(before) == len(after):
        for index, (old_item, new_item) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old_item, new_item, (*path, f"[{index}]"))
    else:
        yield path


def _owned_depth(fields: KubeFields, path: Path) -> int:
    """Counts the steps of a path that are in a set of owned fields (FieldsV1)."""
    depth = 0
    for step in path:
        inner = fields.get(_field_key(step))
        if inner is None:
            break
        fields, depth = inner, depth + 1
    return depth


def _field_key(step: str) -> str:
    if step.startswith("[name="):
        return "k:" + orjson.dumps({"name": step[6:-1]}).decode()
    return f"f:{step}"
