"""Renders kustomizations: finds their references and runs kustomize on a scratch disk."""

import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.spec.renderers import HELM, KUSTOMIZE
from gitcache.domain import paths
from gitcache.domain.references import ChartRef, References
from gitcache.domain.remote_bases import BaseRef, parse_base
from gitcache.render import kubeyaml, kustomize_charts, manifests
from gitcache.render.helm import CHART_SCHEMES, NO_REPOSITORY, with_archives
from gitcache.render.renderer import Files, Renderer, RenderTool, ToolCommand, WorkerJob
from gitcache.render.tool_runner import run_tool, write_files

if TYPE_CHECKING:
    # Workers do not plan, and should start fast.
    from gitcache.domain.trees import Entry
    from gitcache.render.plan import CommitRoot, Planning, RenderPlan

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")

_FOLDERS = ("resources", "bases", "components", "generators", "transformers", "validators")
_PATH_LISTS = (*_FOLDERS, "crds", "configurations", "patchesStrategicMerge")
_LISTS_WITH_PATH = ("patches", "patchesJson6902", "replacements", "openapi")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_PLUGINS = ("helmChartInflationGenerator",)
_REMOTE = re.compile(
    r"^[a-zA-Z][a-zA-Z0-9+.-]*::?//|^[\w.-]+@[\w.-]+:|^(github\.com|gitlab\.com|bitbucket\.org)[/:]"
    r"|://|^git::|[?&](ref|version|timeout|submodules)=|(?<=[^/])//|\.git(/|\?|$)"
)
_REMOTE_HINT = re.compile(rb"//|@|github\.com", re.IGNORECASE)
# kubectl logs its failure with time and process id.
_KLOG = re.compile(
    r'^E\d{4} [^]]*\] "command failed" err=(?:"(?P<line>.*?)"?|<\s*(?P<lines>.*?)\s*>?)$', re.DOTALL
)
# A remaining absolute path means a file outside of the tool's input.
_OUTSIDE = re.compile(
    r"\b(security; file|failure on|l?stat|open|read|root|directory) '?/"
    r"|'/[^']*' must (be a directory|resolve)"
)


class Kustomize(Renderer):
    """Runs kustomize in a private copy of the files."""

    name = KUSTOMIZE
    detected_by = NAMES
    reference_files = r"(.*/)?(kustomization\.ya?ml|Kustomization)(\.liquid)?"
    tool = RenderTool(
        "kustomize",
        "add `kustomize` or `kubectl` to the PATH",
        commands=(
            ToolCommand("kustomize", ("build",)),
            ToolCommand("kubectl", ("kustomize",), ("version", "--client")),
        ),
    )

    async def complete(
        self, planning: "Planning", origin: "CommitRoot", plan: "RenderPlan"
    ) -> "RenderPlan":
        """Fetches the charts of all kustomizations that the render reads."""
        pins, settings = dict(plan.pins), dict(plan.settings)
        for origin_of_folder, path, entry in _read_folders(origin, plan):
            for chart in (await planning.references(origin_of_folder, entry, plan)).charts:
                settings[HELM] = await planning.tool_version(HELM)
                if not chart.repository:
                    continue
                if not chart.repository.startswith(CHART_SCHEMES):
                    raise Invalid(f"the chart {chart.name!r} {NO_REPOSITORY}")
                chart_ref = replace(chart, folder="", project=origin.spec.project)
                folder = paths.child(path, chart.folder).rstrip("/")
                chart_folder = kustomize_charts.fetched_chart(folder, chart)
                pins[chart_folder] = await planning.charts.pin(chart_ref)
        return replace(plan, pins=pins, settings=settings)

    def references(self, folder: str, files: Files) -> References:
        paths_named = referenced_paths(folder, files)
        remote = [
            text for _, value in _kustomizations(folder, files) for text in _remote_bases(value)
        ]
        return References(paths_named, list(_charts(folder, files)), bases=sorted(set(remote)))

    def render(self, job: WorkerJob) -> list[manifests.LocatedObject]:
        with tempfile.TemporaryDirectory(dir=job.scratch, prefix="k") as name:
            top = Path(name) / "repository"
            write_files(top, _with_charts(replace(job, files=_with_local_bases(job.files))))
            output = _run_kustomize([*job.command, str(top / job.root)], Path(name), top)
        objects = manifests.parse("(output of kustomize)", output)
        return manifests.collect(
            replace(located, kube_object=kustomize_charts.without_mark(located.kube_object))
            for located in objects
        )


def _read_folders(
    origin: "CommitRoot", plan: "RenderPlan"
) -> Iterator[tuple["CommitRoot", str, "Entry"]]:
    """Yields the folders that a render reads: their commit, and their path in the render."""
    for path, entry in plan.reads.items():
        if entry.is_tree:
            yield origin, path, entry
    for base in plan.bases:
        for path, entry in base.reads.items():
            if entry.is_tree:
                yield base.origin, paths.child(base.at, path).rstrip("/"), entry


def _remote_bases(kustomization: JsonMapping) -> dict[str, BaseRef]:
    """Maps the remote references of a kustomization to bases."""
    references = (item for name in _FOLDERS for item in _as_list(kustomization.get(name)))
    return {
        item: base
        for item in references
        if _is_path(item) and (base := parse_base(item)) is not None
    }


def _with_local_bases(files: Files) -> Files:
    """Replaces the URLs of remote bases in kustomizations by their paths among the files."""
    changed: dict[str, bytes] = {}
    candidates = {path: data for path, data in files.items() if _REMOTE_HINT.search(data)}
    for path, value in _kustomizations("", candidates):
        if remote := _remote_bases(value):
            local_paths = {text: _local_path(path, base) for text, base in remote.items()}
            folders = {
                name: [local_paths.get(str(item), item) for item in _as_list(value[name])]
                for name in _FOLDERS
                if value.get(name)
            }
            changed[path] = yaml.safe_dump({**value, **folders}).encode()
    return {**files, **changed}


def _local_path(path: str, base: BaseRef) -> str:
    return paths.relative_to(
        paths.child(base.mount_path, base.folder).rstrip("/"), posixpath.dirname(path)
    )


def _charts(folder: str, files: Files) -> Iterator[ChartRef]:
    for path, value in _kustomizations(folder, files):
        yield from kustomize_charts.chart_refs(posixpath.dirname(path), value)


def _with_charts(job: WorkerJob) -> Files:
    """Adds the rendered charts of kustomizations to the files."""
    job = replace(job, files=with_archives(job.archives, job.files))
    if not job.settings:
        return job.files
    kustomizations = dict(_kustomizations("", job.files))
    namespaces = dict(
        _namespaces(
            job.root, {posixpath.dirname(path): kustomizations[path] for path in kustomizations}
        )
    )
    changed: dict[str, bytes] = {}
    for path, value in kustomizations.items():
        if kustomize_charts.has_charts(value):
            namespace = namespaces.get(posixpath.dirname(path), "")
            changed |= kustomize_charts.inflate(path, value, job, namespace)
    return {**job.files, **changed}


def _namespaces(root: str, folders: Mapping[str, JsonMapping]) -> Iterator[tuple[str, str]]:
    """Yields the folders of kustomizations with the namespace of the nearest one around."""
    visited: set[str] = set()
    pending = [(root, "")]
    while pending:
        folder, inherited = pending.pop()
        if folder in visited or folder not in folders:
            continue
        visited.add(folder)
        namespace = str(folders[folder].get("namespace") or inherited)
        yield folder, namespace
        for name in _named_paths(folders[folder]):
            child = paths.join(folder, name)
            if child is not None:
                pending.append((child, namespace))


def _kustomizations(folder: str, files: Files) -> Iterator[tuple[str, JsonObject]]:
    """Yields the kustomizations at and below a folder. Raises Invalid for a malformed one."""
    for path, data in sorted(files.items()):
        if posixpath.basename(path) not in NAMES or not paths.is_below(path, folder):
            continue
        for value in kubeyaml.load_file(path, data, 10):
            if not isinstance(value, dict):
                raise Invalid(f"{path}: not a kustomization")
            yield path, value


def referenced_paths(folder: str, files: Files) -> list[str]:
    """Lists the paths that kustomizations at and below `folder` name, relative to the repository.

    Sorted, including paths outside the repository, which start with `../`. Raises Invalid for a
    malformed kustomization or one with network references.
    """
    references = set()
    for path, value in _kustomizations(folder, files):
        for reference in _checked_paths(path, value):
            joined = posixpath.join(posixpath.dirname(path), reference)
            references.add(posixpath.normpath(joined))
    return sorted(references)


def _checked_paths(path: str, kustomization: JsonMapping) -> Iterator[str]:
    for name in _PLUGINS:
        if kustomization.get(name):
            raise Invalid(f"{path}: `{name}` is not supported; use `helmCharts`")
    remote = _remote_bases(kustomization)
    for reference in _named_paths(kustomization):
        if reference in remote:
            continue
        if _REMOTE.search(reference):
            raise Invalid(
                f"{path}: {reference[:120]!r} is a remote reference, but no folder of a Git "
                "repository; rendering has no network access, so add it to the repository"
            )
        yield reference


def _named_paths(kustomization: JsonMapping) -> Iterator[str]:
    """Yields every value of a kustomization that kustomize treats as a path."""
    yield from kustomize_charts.chart_paths(kustomization)
    for name in _PATH_LISTS:
        yield from (item for item in _as_list(kustomization.get(name)) if _is_path(item))
    for name in _LISTS_WITH_PATH:
        for item in _as_list(kustomization.get(name)):
            if isinstance(item, dict) and isinstance(item.get("path"), str):
                yield item["path"]
    for name in _GENERATORS:
        for generator in _as_list(kustomization.get(name)):
            if isinstance(generator, dict):
                files = [
                    *_as_list(generator.get("files")),
                    *_as_list(generator.get("envs")),
                    generator.get("env"),
                ]
                yield from (_file_source(str(item)) for item in files if item)


def _file_source(item: str) -> str:
    """Returns the path of a generator's `path` or `key=path`."""
    _, equals, path = item.partition("=")
    return path if equals and not _REMOTE.search(item) else item


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "\n" not in value


def _as_list(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _run_kustomize(command: Sequence[str], home: Path, top: Path) -> bytes:
    code, output, errors = run_tool(command, home, top)
    if code:
        raise Invalid(_error_text(errors, top) or "kustomize failed")
    return output


def _error_text(stderr: bytes, top: Path) -> str:
    text = stderr.decode("utf-8", "replace").strip().removeprefix("Error: ").removeprefix("error: ")
    if (klog := _KLOG.search(text)) is not None:
        text = klog["lines"] or klog["line"].replace('\\"', '"')
    for folder in (os.path.realpath(top), str(top)):
        text = text.replace(f"{folder}/", "").replace(folder, ".")
    if _OUTSIDE.search(text):
        # Do not reveal the existence of local files.
        text = "a reference leads to a file outside of this repository"
    return "kustomize: " + "".join(char if char.isprintable() else " " for char in text)
