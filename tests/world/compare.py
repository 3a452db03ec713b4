"""Renders sources by a tool and by the git cache, and compares the objects."""

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from core.errors import Invalid, TowlineError
from core.identity import RepositoryId
from core.spec.bundle import KubeObject
from core.spec.renderers import HelmRelease, RenderOptions
from core.spec.source import RenderRequest
from gitcache.render import manifests
from gitcache.sync.cache import GitCache
from tests.world.corpus import Source, tool

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
    difference = _difference(ours, theirs)
    return Comparison(source, Result.DIFFERENT if difference else Result.SAME, difference)


def table(comparisons: Iterable[Comparison]) -> str:
    """Returns the number of each result by renderer, as Markdown."""
    counts = Counter((found.source.renderer, found.result) for found in comparisons)
    lines = ["| renderer | " + " | ".join(Result) + " |", "|---" * (len(Result) + 1) + "|"]
    for renderer in sorted({renderer for renderer, _ in counts}):
        numbers = (str(counts[renderer, result]) for result in Result)
        lines.append(f"| {renderer} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def _by_tool(top: Path, source: Source) -> tuple[Objects | None, str]:
    with tempfile.TemporaryDirectory(prefix="world-") as home:
        done = subprocess.run(
            _command(top / source.path, source),
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


def _command(path: Path, source: Source) -> list[str]:
    program = str(tool(source.renderer))
    if source.renderer == "helm":
        flags = ["--include-crds", "--namespace", RELEASE.namespace]
        return [program, "template", RELEASE.release, str(path), *flags]
    if source.renderer == "kustomize":
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


def _difference(ours: Objects, theirs: Objects) -> str:
    if missing := sorted(theirs.keys() - ours.keys()):
        return f"we lack {missing[0]}"
    if extra := sorted(ours.keys() - theirs.keys()):
        return f"only we have {extra[0]}"
    for key, kube_object in ours.items():
        if kube_object != theirs[key]:
            return f"{key} differs at {_place(kube_object, theirs[key])}"
    return ""


def _place(ours: Any, theirs: Any, at: str = "") -> str:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            if ours.get(name) != theirs.get(name):
                return _place(ours.get(name), theirs.get(name), f"{at}/{name}")
    return f"{at}: {str(ours)[:60]!r}, the tool has {str(theirs)[:60]!r}"
