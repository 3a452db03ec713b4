"""Renders sources by a tool and by the git cache, and compares the objects."""

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import yaml

from core.errors import Invalid, TowlineError
from core.identity import RepositoryId
from core.spec.bundle import KubeObject
from core.spec.renderers import HelmRelease, RenderOptions
from core.spec.source import RenderRequest
from gitcache.render import manifests
from gitcache.sync.cache import GitCache
from tests.world.corpus import PLAIN, Source, tool

RELEASE = HelmRelease("world", "world", ignore_crds=False)
_SECONDS = 120
_TESTS = {"test", "test-success"}
Objects = Mapping[str, KubeObject]


class Result(StrEnum):
    """Outcome of a comparison."""

    SAME = "same"
    DIFFERENT = "different"
    ONLY_WE_REFUSE = "only we refuse"
    ONLY_TOOL_REFUSES = "only the tool refuses"
    BOTH_REFUSE = "both refuse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of one source; `detail` has the first difference or our refusal."""

    source: Source
    result: Result
    detail: str = ""


async def compare(
    cache: GitCache, id: RepositoryId, sha: str, top: Path, source: Source
) -> Comparison:
    """Compares one source of a commit, whose files are also in the folder `top`."""
    theirs, their_error = _by_tool(top, source)
    ours, our_error = await _by_git_cache(cache, id, sha, source)
    if ours is None or theirs is None:
        if ours is not None:
            return Comparison(source, Result.ONLY_TOOL_REFUSES, their_error)
        refuses = Result.BOTH_REFUSE if theirs is None else Result.ONLY_WE_REFUSE
        return Comparison(source, refuses, our_error)
    difference = differences(ours, theirs, lambda: _by_tool(top, source)[0] or {})
    return Comparison(source, Result.DIFFERENT if difference else Result.SAME, difference)


def table(found: Mapping[str, Sequence[Comparison]]) -> str:
    """Returns the number of each result by package and renderer, as Markdown."""
    lines = ["| package | renderer | " + " | ".join(Result) + " |"]
    lines.append("|---" * (len(Result) + 2) + "|")
    total = Counter[Result]()
    for package, comparisons in found.items():
        for renderer in sorted({comparison.source.renderer for comparison in comparisons}):
            counts = Counter(
                comparison.result
                for comparison in comparisons
                if comparison.source.renderer == renderer
            )
            lines.append(_row(package, renderer, counts))
            total += counts
    return "\n".join([*lines, _row("all", "", total)])


def _row(package: str, renderer: str, counts: Mapping[Result, int]) -> str:
    numbers = (str(counts.get(result, 0)) for result in Result)
    return f"| {package} | {renderer} | " + " | ".join(numbers) + " |"


def _by_tool(top: Path, source: Source) -> tuple[Objects | None, str]:
    with tempfile.TemporaryDirectory(prefix="world-") as home:
        path = top / source.path
        if source.renderer == PLAIN:
            path = _as_kustomization(path, Path(home) / "copy")
        done = subprocess.run(
            _command(path, source),
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            cwd=home,
            env={"HOME": home, "PATH": home, "TMPDIR": home},
        )
    if done.returncode:
        return None, done.stderr.decode(errors="replace").strip()[:200]
    try:
        return _by_key(_parsed(done.stdout, source)), ""
    except Invalid as error:
        return None, error.message


def _as_kustomization(folder: Path, copy: Path) -> Path:
    """Copies a folder of manifests with a kustomization of all of them, which changes none."""
    shutil.copytree(folder, copy)
    # JSON beside them is no manifest in these packages, and Towline skips it.
    suffixes = {".yaml", ".yml"}
    files = [str(path.relative_to(copy)) for path in copy.rglob("*") if path.suffix in suffixes]
    (copy / "kustomization.yaml").write_text(yaml.safe_dump({"resources": sorted(files)}))
    return copy


def _command(path: Path, source: Source) -> list[str]:
    program = str(tool("kustomize" if source.renderer == PLAIN else source.renderer))
    if source.renderer == "helm":
        flags = ["--include-crds", "--namespace", RELEASE.namespace]
        return [program, "template", RELEASE.release, str(path), *flags]
    if source.renderer in ("kustomize", PLAIN):
        return [program, "build", str(path)]
    return [program, "-J", str(path.parent / "vendor"), str(path)]


def _parsed(output: bytes, source: Source) -> list[KubeObject]:
    if source.renderer == "jsonnet":
        return list(_objects_in(orjson.loads(output)))
    found = manifests.parse("(output of the tool)", output)
    return [located.kube_object for located in found if not _is_test(located.kube_object)]


def _objects_in(value: Any) -> Iterable[KubeObject]:
    if isinstance(value, dict) and "kind" in value and "apiVersion" in value:
        yield from (located.kube_object for located in manifests.flatten(value, ""))
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _objects_in(inner)
    elif value is not None:
        raise Invalid("not a Kubernetes object")


def _is_test(kube_object: KubeObject) -> bool:
    """Towline omits the tests of charts."""
    annotations = (kube_object.get("metadata") or {}).get("annotations") or {}
    return set(str(annotations.get("helm.sh/hook", "x")).split(",")) <= _TESTS


async def _by_git_cache(
    cache: GitCache, id: RepositoryId, sha: str, source: Source
) -> tuple[Objects | None, str]:
    path = PurePosixPath(source.path)
    options = RenderOptions(allow_empty=True)
    folder = source.path
    if source.renderer == "jsonnet":
        folder = "" if str(path.parent) == "." else str(path.parent)
        options = RenderOptions(allow_empty=True, entry=path.name)
    helm = RELEASE if source.renderer == "helm" else None
    request = RenderRequest(id, sha, folder, source.renderer, helm=helm, options=options)
    try:
        rendered = await cache.render(request)
        lines = (await cache.bundle(rendered.digest)).splitlines()
    except TowlineError as error:
        return None, error.message[:300]
    return _by_key(orjson.loads(line) for line in lines), ""


def _by_key(objects: Iterable[KubeObject]) -> Objects:
    found = {}
    for kube_object in objects:
        metadata = kube_object.get("metadata") or {}
        parts = (kube_object.get("apiVersion"), kube_object.get("kind"), metadata.get("namespace"))
        found[" ".join(str(part or "-") for part in (*parts, metadata.get("name")))] = kube_object
    return found


def differences(ours: Objects, theirs: Objects, again: Callable[[], Objects]) -> str:
    """Describes the first difference to a tool; `again` runs it once more. Empty: none."""
    if not (difference := _difference(ours, theirs)):
        return difference
    second = again()
    return _difference(_steady(ours, theirs, second), _steady(theirs, theirs, second))


def _difference(ours: Objects, theirs: Objects) -> str:
    if missing := sorted(theirs.keys() - ours.keys()):
        return f"we lack {missing[0]}"
    if extra := sorted(ours.keys() - theirs.keys()):
        return f"only we have {extra[0]}"
    for key, kube_object in ours.items():
        if kube_object != theirs[key]:
            return f"{key} differs at {_place(kube_object, theirs[key])}"
    return ""


def _steady(objects: Objects, first: Objects, second: Objects) -> Objects:
    """Leaves out values that differ between two runs of the tool, such as random passwords."""
    return {
        key: _masked(kube_object, first.get(key), second.get(key))
        for key, kube_object in objects.items()
    }


def _masked(value: Any, first: Any, second: Any) -> Any:
    if first == second:
        return value
    if isinstance(value, dict) and isinstance(first, dict) and isinstance(second, dict):
        return {name: _masked(value[name], first.get(name), second.get(name)) for name in value}
    return None


def _place(ours: Any, theirs: Any, at: str = "") -> str:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            if ours.get(name) != theirs.get(name):
                return _place(ours.get(name), theirs.get(name), f"{at}/{name}")
    return f"{at}: {str(ours)[:60]!r}, the tool has {str(theirs)[:60]!r}"
