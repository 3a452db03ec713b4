"""Reads manifest files: parses objects, flattens lists, checks required fields."""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

import orjson

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECTS, KubeObject, describe_object
from core.spec.renderers import RenderOptions
from gitcache.render import kubeyaml

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
HOOK_ANNOTATIONS = frozenset({"towline.dev/hook", "argocd.argoproj.io/hook", "helm.sh/hook"})
EVERYTHING = RenderOptions()
_KUSTOMIZATION = "kustomize.config.k8s.io/"
_WILDCARD = re.compile(r"(\*\*/|\*\*|\*|\?)")
_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class LocatedObject:
    """An object and its location: `web/deploy.yaml, line 12`."""

    kube_object: KubeObject
    location: str


def parse(path: str, data: bytes) -> Iterator[LocatedObject]:
    """Parses the objects of one file. Raises Invalid, naming file and line."""
    for line, value in _documents(path, kubeyaml.read_text(path, data)):
        location = f"{path}, line {line}"
        yield from flatten(value, location)


class NoObjects(Invalid):
    """A render without objects, which would remove everything."""


def collect(located: Iterable[LocatedObject]) -> list[LocatedObject]:
    """Collects objects in order. Raises Invalid for incomplete or contradictory objects, and
    NoObjects.

    An object that is there twice in the same form counts once.
    """
    objects: dict[tuple[str, str, str, str], LocatedObject] = {}
    for item in map(_with_hook_name, located):
        first = objects.setdefault(_object_identity(item), item)
        if first.kube_object != item.kube_object:
            raise Invalid(
                f"{describe_object(item.kube_object)} is defined twice with other content: "
                f"{first.location} and {item.location}"
            )
        if len(objects) > MAX_OBJECTS:
            raise Invalid(f"more than {MAX_OBJECTS:,} objects in one service")
    if not objects:
        raise NoObjects(
            "the folder renders to no objects; to remove everything, delete the service, "
            "or set `rendering.allowEmpty`"
        )
    return list(objects.values())


def files_of(objects: Iterable[LocatedObject]) -> list[tuple[str, int]]:
    """Lists the files of objects in their order, each with its number of objects in a row."""
    files = (item.location.rpartition(", line ")[0] or item.location for item in objects)
    return [(file, sum(1 for _ in same)) for file, same in groupby(files)]


def _with_hook_name(item: LocatedObject) -> LocatedObject:
    """Names a hook with `generateName` after its content; the agent replaces it at each run."""
    metadata = item.kube_object.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") or not _is_hook(metadata):
        return item
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        return item
    content = orjson.dumps(item.kube_object, option=orjson.OPT_SORT_KEYS)
    name = prefix + hashlib.sha256(content).hexdigest()[:8]
    others = {key: value for key, value in metadata.items() if key != "generateName"}
    return replace(item, kube_object={**item.kube_object, "metadata": {**others, "name": name}})


def _is_hook(metadata: Mapping[str, object]) -> bool:
    annotations = metadata.get("annotations")
    return isinstance(annotations, dict) and not HOOK_ANNOTATIONS.isdisjoint(annotations)


def _documents(path: str, text: str) -> Iterator[tuple[int, object]]:
    try:
        if path.endswith(".json"):
            yield 1, load_json(text)
        else:
            yield from kubeyaml.load_all(text, MAX_OBJECTS)
    except kubeyaml.YamlError as error:
        raise Invalid(f"{path}, {_with_line(error)}") from error


def _with_line(error: kubeyaml.YamlError) -> str:
    text = str(error)
    return text if text.startswith("line ") else f"line 1: {text}"


def load_json(text: str) -> object:
    """Parses JSON with the rules of `kubeyaml`: no duplicate keys, numbers as in Go."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=kubeyaml.parse_integer,
            parse_float=kubeyaml.parse_number,
        )
    except json.JSONDecodeError as error:
        raise kubeyaml.YamlError(f"line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise kubeyaml.YamlError("values are nested too deeply") from error
    except ValueError as error:
        raise kubeyaml.YamlError(str(error)) from error


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {duplicate!r}")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def flatten(value: object, location: str) -> Iterator[LocatedObject]:
    """Yields an object, or the objects of a list. Raises Invalid for other values."""
    if not isinstance(value, dict):
        raise Invalid(f"{location}: not a Kubernetes object but {_json_type(value)}")
    kind = value.get("kind")
    items = value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items, 1):
            yield from flatten(item, f"{location}, item {index}")
        return
    yield LocatedObject(value, location)


def _object_identity(item: LocatedObject) -> tuple[str, str, str, str]:
    kube_object = item.kube_object
    version, kind = kube_object.get("apiVersion"), kube_object.get("kind")
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise Invalid(f"{item.location}: the object has no `{name}`")
    metadata = kube_object.get("metadata")
    if not isinstance(metadata, dict):
        raise Invalid(f"{item.location}: {kind} has no `metadata`")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid(f"{item.location}: {kind} {_name_problem(metadata)}")
    namespace = metadata.get("namespace") or ""
    if not isinstance(namespace, str):
        raise Invalid(f"{item.location}: {kind} {name}: `metadata.namespace` must be text")
    return str(version).rpartition("/")[0], str(kind), namespace, name


def _name_problem(metadata: Mapping[str, object]) -> str:
    if "generateName" in metadata:
        return "uses `generateName`: each apply would make another object; give it a name"
    if "name" in metadata:
        return "has a `metadata.name` that is not text (quote it?)"
    return "has no `metadata.name`"


_KINDS: tuple[tuple[type, str], ...] = ((list, "a list"), (str, "text"), (bool, "a boolean"))


def _json_type(value: object) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "a single value")


def read_manifests(
    folder: str, files: Mapping[str, bytes], options: RenderOptions = EVERYTHING
) -> list[LocatedObject]:
    """Renders RAW: the manifests of the folder, by sorted path, without dot files.

    YAML and JSON without `apiVersion` and `kind`, and kustomizations, are not manifests.
    """
    return collect(
        located
        for path in sorted(files)
        if is_manifest(folder, path, options)
        for located in _objects_of_file(path, files[path])
    )


def _objects_of_file(path: str, data: bytes) -> Iterator[LocatedObject]:
    try:
        documents = list(_documents(path, kubeyaml.read_text(path, data)))
    except Invalid as error:
        raise Invalid(
            f"{error.message}; if the file is not a manifest, add it to `rendering.exclude`"
        ) from error
    for line, value in documents:
        if _looks_like_object(value):
            yield from flatten(value, f"{path}, line {line}")


def _looks_like_object(value: object) -> bool:
    if not isinstance(value, dict) or value.keys().isdisjoint(("apiVersion", "kind")):
        return False
    return not str(value.get("apiVersion")).startswith(_KUSTOMIZATION)


def is_manifest(folder: str, path: str, options: RenderOptions = EVERYTHING) -> bool:
    """True if RAW rendering of `folder` reads `path` (both relative to the root)."""
    relative_path = path.removeprefix(f"{folder}/") if folder else path
    if not path.endswith(MANIFEST_SUFFIXES) or (folder and relative_path == path):
        return False
    if any(part.startswith(".") for part in relative_path.split("/")):
        return False
    if "/" in relative_path and not options.recurse:
        return False
    if options.include and not matches(relative_path, options.include):
        return False
    return not matches(relative_path, options.exclude)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Returns whether a path matches a pattern of `RenderOptions`."""
    name = posixpath.basename(path)
    return any(
        _pattern(pattern).fullmatch(path if "/" in pattern else name) for pattern in patterns
    )


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    parts = _WILDCARD.split(pattern.removeprefix("./"))
    return re.compile("".join(_REGEX.get(part) or re.escape(part) for part in parts), re.DOTALL)
