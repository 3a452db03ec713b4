"""Reads Helm charts before a render: dependencies, indexes and archives."""

import posixpath
from collections.abc import Mapping

from core.errors import Invalid
from gitcache.domain import paths
from gitcache.render import kubeyaml
from gitcache.render.unpack.archive import ArchiveLimits, gunzip, read_archive

CHART = "Chart.yaml"
_REQUIREMENTS = "requirements.yaml"
_VALUES = "values.yaml"
_LOCKS = ("Chart.lock", "requirements.lock")
_MAX_DEPENDENCIES = 64
_MAX_VERSIONS = 2000
_ARCHIVE = "the chart's archive"


def dependencies(folder: str, files: Mapping[str, bytes]) -> list[dict[str, str]]:
    """Lists the dependencies that are not in the chart itself, as name, version, repository.

    Versions in the chart's lock file win. Raises Invalid for a malformed chart.
    """
    declared = [_dependency(entry) for entry in dependency_entries(folder, files)]
    locked = {
        dependency["name"]: dependency["version"]
        for name in _LOCKS
        for dependency in map(_dependency, _named_entries(folder, name, files))
    }
    vendored = _vendored_charts(folder, files)
    return [
        {**dependency, "version": locked.get(dependency["name"], dependency["version"])}
        for dependency in declared
        if dependency["name"] not in vendored
    ]


def dependency_entries(folder: str, files: Mapping[str, bytes]) -> list[dict[str, object]]:
    """Returns the dependency entries of a chart that have a name. Raises Invalid for too many."""
    if paths.child(folder, CHART) not in files:
        raise Invalid(
            f"{paths.child(folder, CHART)}: not found, so this folder is not a Helm chart"
        )
    entries = _named_entries(folder, CHART, files) or _named_entries(folder, _REQUIREMENTS, files)
    if len(entries) > _MAX_DEPENDENCIES:
        raise Invalid(f"the chart has more than {_MAX_DEPENDENCIES} dependencies")
    return entries


def own_values(folder: str, files: Mapping[str, bytes]) -> dict[str, object]:
    """Reads a chart's own values."""
    return _read_document(files, paths.child(folder, _VALUES))


def merge_values(base: Mapping[str, object], override: Mapping[str, object]) -> dict[str, object]:
    """Merges values recursively; `override` wins."""
    result = dict(base)
    for key, value in override.items():
        existing = result.get(key)
        are_mappings = isinstance(existing, dict) and isinstance(value, dict)
        result[key] = merge_values(existing, value) if are_mappings else value
    return result


def versions(data: bytes, name: str) -> list[dict[str, str]]:
    """Lists the versions of a chart in an index as version, digest and URL, newest first.

    Raises Invalid for a malformed index or an unknown chart.
    """
    try:
        documents = list(kubeyaml.load_all(data.decode("utf-8-sig"), 2))
    except (kubeyaml.YamlError, UnicodeDecodeError) as error:
        raise Invalid(f"the chart repository's index is malformed: {error}") from error
    index = documents[0][1] if documents else None
    entries = index.get("entries") if isinstance(index, dict) else None
    if not isinstance(entries, dict):
        raise Invalid("the chart repository's index has no charts")
    entries_of_chart = entries.get(name)
    if not isinstance(entries_of_chart, list) or not entries_of_chart:
        raise Invalid(f"the chart repository has no chart {name[:80]!r}")
    parsed = (_version(entry) for entry in entries_of_chart[:_MAX_VERSIONS])
    return [version for version in parsed if version is not None]


def unpack(data: bytes) -> dict[str, bytes]:
    """Unpacks a chart archive in memory, without its top-level folder.

    Accepts only regular files. Raises Invalid for a malformed archive, links, paths outside of
    it, and content beyond the limits.
    """
    archive, limits = gunzip(data, _ARCHIVE), ArchiveLimits(_ARCHIVE)
    files = {
        _path_in_chart(member.name): member.data
        for member in read_archive(archive, limits, links=False)
    }
    if CHART not in files:
        raise Invalid(f"{_ARCHIVE} contains no {CHART}")
    return files


def _path_in_chart(name: str) -> str:
    """Returns a member's path below the chart's top-level folder."""
    _, slash, inside = name.removeprefix("./").partition("/")
    is_forbidden = "\\" in name or "\0" in name or name.startswith("/") or len(name) > 1024
    normal = posixpath.normpath(inside) if inside else ""
    if is_forbidden or not slash or normal != inside or normal.startswith(("..", "/")):
        raise Invalid("the chart's archive contains a path outside of it")
    return inside


def _vendored_charts(folder: str, files: Mapping[str, bytes]) -> set[str]:
    """Names the charts below `charts/`: folders, and archives by file name."""
    prefix = f"{paths.child(folder, 'charts')}/"
    names = set()
    for path in files:
        name, slash, rest = path.removeprefix(prefix).partition("/")
        if not path.startswith(prefix):
            continue
        if slash and rest == CHART:
            names.add(name)
        elif not slash and name.endswith(".tgz"):
            names |= {name.rsplit("-", cut)[0] for cut in range(1, 1 + name.count("-"))}
    return names


def _read_document(files: Mapping[str, bytes], path: str) -> dict[str, object]:
    """Reads a file with one map; empty without the file."""
    documents = kubeyaml.load_file(path, files[path], 2) if path in files else []
    value = documents[0] if documents else {}
    if not isinstance(value, dict):
        raise Invalid(f"{path}, line 1: expected a map")
    return value


def _named_entries(folder: str, file: str, files: Mapping[str, bytes]) -> list[dict[str, object]]:
    entries = _read_document(files, paths.child(folder, file)).get("dependencies")
    return [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]


def _dependency(entry: Mapping[str, object]) -> dict[str, str]:
    return {key: str(entry.get(key) or "") for key in ("name", "version", "repository")}


def _version(entry: object) -> dict[str, str] | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("urls"), list) or not entry["urls"]:
        return None
    digest = str(entry.get("digest") or "").removeprefix("sha256:")
    return {"version": str(entry.get("version")), "digest": digest, "url": str(entry["urls"][0])}
