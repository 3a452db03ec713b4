"""Renders kustomizations: finds their references and runs kustomize on a scratch disk."""

import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import Invalid
from core.spec.bundle import KubeObject
from core.spec.renderers import KUSTOMIZE
from gitcache.domain.references import References
from gitcache.render import kubeyaml, manifests
from gitcache.render.renderer import Files, Renderer, RenderTool, ToolCommand, WorkerJob
from gitcache.render.tool_runner import materialise, run_tool

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")

_LISTS = (
    "resources",
    "bases",
    "components",
    "crds",
    "configurations",
    "generators",
    "transformers",
    "validators",
    "patchesStrategicMerge",
)
_WITH_PATH = ("patches", "patchesJson6902", "replacements", "openapi")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_PLUGINS = ("helmCharts", "helmChartInflationGenerator")
_REMOTE = re.compile(
    r"^[a-zA-Z][a-zA-Z0-9+.-]*::?//|^[\w.-]+@[\w.-]+:|^(github\.com|gitlab\.com|bitbucket\.org)[/:]"
    r"|://|^git::|[?&](ref|version|timeout|submodules)=|(?<=[^/])//|\.git(/|\?|$)"
)
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

    def references(self, folder: str, files: Files) -> References:
        return References(referenced_paths(folder, files))

    def render(self, job: WorkerJob) -> list[KubeObject]:
        with tempfile.TemporaryDirectory(dir=job.scratch, prefix="k") as name:
            top = Path(name) / "repository"
            materialise(top, job.files)
            output = _run([*job.command, str(top / job.root)], Path(name), top)
        return manifests.collect(manifests.parse("(output of kustomize)", output))


def referenced_paths(folder: str, files: Files) -> list[str]:
    """Lists the paths that kustomizations at and below `folder` name, relative to the repository.

    Sorted, including paths outside the repository, which start with `../`. Raises Invalid for a
    malformed kustomization or one with network references.
    """
    found = set()
    for path, data in sorted(files.items()):
        if posixpath.basename(path) not in NAMES or not _inside(path, folder):
            continue
        for reference in _checked(path, data):
            joined = posixpath.join(posixpath.dirname(path), reference)
            found.add(posixpath.normpath(joined))
    return sorted(found)


def _inside(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _checked(path: str, data: bytes) -> Iterator[str]:
    try:
        documents = list(kubeyaml.load_all(data.decode("utf-8-sig"), 10))
    except (kubeyaml.YamlError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}, {error}") from error
    for _, value in documents:
        if not isinstance(value, dict):
            raise Invalid(f"{path}: not a kustomization")
        for name in _PLUGINS:
            if value.get(name):
                raise Invalid(f"{path}: `{name}` is not supported")
        for reference in _named(value):
            if _REMOTE.search(reference):
                raise Invalid(
                    f"{path}: {reference[:120]!r} is a remote reference; rendering has no "
                    "network access, so add it to the repository"
                )
            yield reference


def _named(kustomization: Mapping[str, Any]) -> Iterator[str]:
    """Yields every value of a kustomization that kustomize treats as a path."""
    for name in _LISTS:
        yield from (item for item in _list(kustomization.get(name)) if _is_path(item))
    for name in _WITH_PATH:
        for item in _list(kustomization.get(name)):
            if isinstance(item, dict) and isinstance(item.get("path"), str):
                yield item["path"]
    for name in _GENERATORS:
        for generator in _list(kustomization.get(name)):
            if isinstance(generator, dict):
                files = [
                    *_list(generator.get("files")),
                    *_list(generator.get("envs")),
                    generator.get("env"),
                ]
                yield from (_file_source(str(item)) for item in files if item)


def _file_source(item: str) -> str:
    """Returns the path of a generator's `path` or `key=path`."""
    _, equals, path = item.partition("=")
    return path if equals and not _REMOTE.search(item) else item


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _run(command: Sequence[str], home: Path, top: Path) -> bytes:
    code, output, errors = run_tool(command, home, top)
    if code:
        raise Invalid(_error_text(errors, top) or "kustomize failed")
    return output


def _error_text(stderr: bytes, top: Path) -> str:
    text = stderr.decode("utf-8", "replace").strip().removeprefix("Error: ").removeprefix("error: ")
    if (klog := _KLOG.search(text)) is not None:
        text = klog["lines"] or klog["line"].replace('\\"', '"')
    for place in (os.path.realpath(top), str(top)):
        text = text.replace(f"{place}/", "").replace(place, ".")
    if _OUTSIDE.search(text):
        # Do not reveal the existence of local files.
        text = "a reference leads to a file outside of this repository"
    return "kustomize: " + "".join(char if char.isprintable() else " " for char in text)
