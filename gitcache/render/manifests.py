"""Reads manifest files: parses objects, flattens lists, checks required fields."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECTS, KubeObject, describe_object
from gitcache.render import kubeyaml

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class LocatedObject:
    """An object and its location: `web/deploy.yaml, line 12`."""

    kube_object: KubeObject
    where: str


def parse(path: str, data: bytes) -> Iterator[LocatedObject]:
    """Parses the objects of one file. Raises Invalid, naming file and line."""
    if len(data) > MAX_FILE_BYTES:
        raise Invalid(f"{path}: {len(data):,} bytes; the limit is {MAX_FILE_BYTES:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}, line {line}: not UTF-8 text") from error
    for line, value in _documents(path, text):
        where = f"{path}, line {line}"
        yield from flatten(value, where)


def collect(located: Iterable[LocatedObject]) -> list[KubeObject]:
    """Collects objects in order. Raises Invalid for incomplete, duplicate or no objects."""
    seen: dict[tuple[str, str, str, str], str] = {}
    objects = []
    for item in located:
        key = _identity(item)
        if key in seen:
            raise Invalid(
                f"{describe_object(item.kube_object)} is defined twice: "
                f"{seen[key]} and {item.where}"
            )
        seen[key] = item.where
        objects.append(item.kube_object)
        if len(objects) > MAX_OBJECTS:
            raise Invalid(f"more than {MAX_OBJECTS:,} objects in one service")
    if not objects:
        raise Invalid("the folder renders to no objects; to remove everything, delete the service")
    return objects


def _documents(path: str, text: str) -> Iterator[tuple[int, Any]]:
    try:
        if path.endswith(".json"):
            yield 1, load_json(text)
        else:
            yield from kubeyaml.load_all(text, MAX_OBJECTS)
    except kubeyaml.YamlError as error:
        raise Invalid(f"{path}, {_with_place(error)}") from error


def _with_place(error: kubeyaml.YamlError) -> str:
    text = str(error)
    return text if text.startswith("line ") else f"line 1: {text}"


def load_json(text: str) -> object:
    """Parses JSON with the rules of `kubeyaml`: no duplicate keys, numbers as in Go."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=kubeyaml.integer,
            parse_float=kubeyaml.number,
        )
    except json.JSONDecodeError as error:
        raise kubeyaml.YamlError(f"line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise kubeyaml.YamlError("values are nested too deeply") from error
    except ValueError as error:
        raise kubeyaml.YamlError(str(error)) from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {twice!r}")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def flatten(value: object, where: str) -> Iterator[LocatedObject]:
    """Yields an object, or the objects of a list. Raises Invalid for other values."""
    if not isinstance(value, dict):
        raise Invalid(f"{where}: not a Kubernetes object but {_kind_of(value)}")
    kind = value.get("kind")
    items = value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items, 1):
            yield from flatten(item, f"{where}, item {number}")
        return
    yield LocatedObject(value, where)


def _identity(item: LocatedObject) -> tuple[str, str, str, str]:
    kube_object = item.kube_object
    version, kind = kube_object.get("apiVersion"), kube_object.get("kind")
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise Invalid(f"{item.where}: the object has no `{name}`")
    metadata = kube_object.get("metadata")
    if not isinstance(metadata, dict):
        raise Invalid(f"{item.where}: {kind} has no `metadata`")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid(f"{item.where}: {kind} {_nameless(metadata)}")
    namespace = metadata.get("namespace") or ""
    if not isinstance(namespace, str):
        raise Invalid(f"{item.where}: {kind} {name}: `metadata.namespace` must be text")
    return str(version).rpartition("/")[0], str(kind), namespace, name


def _nameless(metadata: Mapping[str, object]) -> str:
    if "generateName" in metadata:
        return "uses `generateName`: each apply would make another object; give it a name"
    if "name" in metadata:
        return "has a `metadata.name` that is not text (quote it?)"
    return "has no `metadata.name`"


_KINDS: tuple[tuple[type, str], ...] = ((list, "a list"), (str, "text"), (bool, "a boolean"))


def _kind_of(value: object) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "a single value")


def read_folder(folder: str, files: Mapping[str, bytes]) -> list[KubeObject]:
    """Renders RAW: all manifests in and below the folder, by sorted path, without dot files."""
    return collect(
        located
        for path in sorted(files)
        if is_manifest(folder, path)
        for located in parse(path, files[path])
    )


def is_manifest(folder: str, path: str) -> bool:
    """True if RAW rendering of `folder` reads `path` (both relative to the root)."""
    inside = path.removeprefix(f"{folder}/") if folder else path
    hidden = any(part.startswith(".") for part in inside.split("/"))
    return path.endswith(MANIFEST_SUFFIXES) and not hidden and (not folder or inside != path)
