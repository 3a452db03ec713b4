"""Places in documents for the fields that operations name in their errors.

Operations name the fields of the API, such as `git.ref`; users see those of their documents.
"""

import re
from collections.abc import Iterator, Mapping
from typing import get_args

from controlplane.manifests.model.codec import Hint, Path, SpecCodec, SpecField, unwrapped
from controlplane.platform.plugin_settings import camel
from core.json_object import JsonMapping, JsonValue

_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_ALIASES: Mapping[Path, Path] = {
    ("git",): (),
    ("syncConfig", "labels"): ("options", "namespaceLabels"),
    ("syncConfig", "annotations"): ("options", "namespaceAnnotations"),
    ("syncConfig", "diffNormalizers"): ("options", "ignored"),
    ("syncConfig",): ("options",),
    ("contextBindings",): ("contexts",),
}
"""Fields of the API that documents have elsewhere; the first that fits counts."""
_METADATA: Mapping[str, Path] = {
    "name": ("metadata", "name"),
    "project": ("metadata", "project"),
    "projectId": ("metadata", "project"),
    "cluster": ("metadata", "cluster"),
    "clusterId": ("metadata", "cluster"),
    "spec": ("spec",),
}


def place_of(codec: SpecCodec, field: str) -> Path:
    """Returns the place of a field of an operation; empty for one that documents do not have."""
    parts: Path = tuple(int(number) if number else name for name, number in _PART.findall(field))
    if not parts:
        return ()
    head, fields = str(parts[0]), codec.by_name
    if head == codec.kind.named_by and head not in fields:
        return ("metadata", "name")
    if path := _published_path(codec, fields, parts):
        return ("spec", *path)
    if "template" in fields and (
        inner_path := _published_path(codec, _inner_fields(codec, fields["template"]), parts)
    ):
        return ("spec", "template", *inner_path)
    return _METADATA.get(head, ())


def only_place(spec: JsonMapping, field: str) -> Path:
    """Returns the only place of a field in a spec, such as one in the settings of a plug-in."""
    paths = list(_paths_of_field(spec, field, ("spec",)))
    return paths[0] if len(paths) == 1 else ()


def _paths_of_field(value: JsonValue, field: str, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == field:
                yield (*path, name)
            yield from _paths_of_field(inner, field, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths_of_field(inner, field, (*path, number))


def _published_path(codec: SpecCodec, fields: Mapping[str, SpecField], parts: Path) -> Path:
    """Returns the published path of fields; empty if the first is not known."""
    for alias, path in _ALIASES.items():
        if parts[: len(alias)] == alias and alias[0] not in fields:
            parts = (*path, *parts[len(alias) :])
    if not parts or (field := _field_by_api_name(fields, str(parts[0]))) is None:
        return ()
    number = next((n for n, part in enumerate(parts) if n and isinstance(part, str)), len(parts))
    rest = parts[number:]
    inner_path = _published_path(codec, _inner_fields(codec, field), rest)
    return (field.published, *parts[1:number], *(inner_path or (() if field.family else rest)))


def _field_by_api_name(fields: Mapping[str, SpecField], name: str) -> SpecField | None:
    """Returns the field with a name of the API: `repositoryId` is `repository` in documents."""
    names = (name, name.removesuffix("Id"), re.sub("Ids$", "s", name), f"{name}Seconds")
    by_attribute = (field for field in fields.values() if camel(field.attribute) == name)
    return next(
        (fields[candidate] for candidate in names if candidate in fields), next(by_attribute, None)
    )


def _inner_fields(codec: SpecCodec, field: SpecField) -> Mapping[str, SpecField]:
    """Returns the fields of an object, or of the items of a list or mapping."""
    candidates = (codec.inner_fields(hint) for hint in _nested_types(field.hint))
    return next(filter(None, candidates), {})


def _nested_types(hint: Hint) -> Iterator[Hint]:
    inner = unwrapped(hint)
    yield inner
    for item in get_args(inner):
        yield from _nested_types(item)
