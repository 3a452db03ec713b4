"""Renders Helm charts: merges values, renders templates, keeps or drops hooks."""

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from core.errors import Invalid, Unavailable
from core.spec.bundle import KubeObject
from gitcache.domain import paths
from gitcache.render import charts, kubeyaml, manifests, sandbox, subcharts, templates
from gitcache.render.parameters import ParameterRecorder
from gitcache.render.tool_runner import materialise, run_tool

_HOOK = "helm.sh/hook"
_TESTS = {"test", "test-success", "test-failure"}
_CLUSTER_MARKS = (b"Capabilities", b"kubeVersion")
_MAX_TOLD = 2000
_MAX_LOADED_CHARTS = 8

Files = Mapping[str, bytes]


class HelmEngine(Protocol):
    """Renders the files of a chart, given by their path in it."""

    def render(
        self, chart: Files, values: dict[str, Any], options: Mapping[str, Any], scratch: Path
    ) -> str | dict[str, str]:
        """Returns texts by template, or one text. Raises Invalid with Helm's error."""
        ...


def build(
    job: Mapping[str, Any],
    files: Files,
    recorder: ParameterRecorder,
    settings: Mapping[str, Any],
) -> list[KubeObject]:
    """Renders a chart to objects: CRDs first, then templates by path.

    Raises Invalid, naming template and line.
    """
    wanted, root = job["helm"], job["root"]
    files = _with_archives(job["archives"], files)
    inside = {path: data for path, data in files.items() if paths.below(path, root)}
    values = _values(job, files, recorder)
    options = {
        "name": wanted["release"],
        "namespace": wanted["namespace"],
        **_capabilities(inside, values, recorder),
    }
    chart = dict(_relative(inside, root))
    engine = _engine(job["command"], settings)
    texts = engine.render(chart, values, options, Path(settings["scratch"]))
    found = [*_crds(chart, values, wanted), *_rendered(texts)]
    return manifests.collect(located for located in found if _is_kept(located, wanted))


def _with_archives(archives: Mapping[str, str], files: Files) -> Mapping[str, bytes]:
    """Unpacks fetched chart archives into their target folders."""
    if not archives:
        return files
    result = {path: data for path, data in files.items() if path not in archives}
    for name, target in archives.items():
        unpacked = charts.unpack(files[name])
        result |= {paths.child(target, path): data for path, data in unpacked.items()}
    return result


def _relative(files: Files, root: str) -> Iterator[tuple[str, bytes]]:
    for path, data in files.items():
        yield (path.removeprefix(f"{root}/") if root else path), data


def _values(job: Mapping[str, Any], files: Files, recorder: ParameterRecorder) -> dict[str, Any]:
    """Merges values files in order, then inline values; later ones win."""
    result: dict[str, Any] = {}
    for path in job["values"]:
        data = files[path]
        if job["templated"] and path.endswith(templates.TEMPLATE_SUFFIX):
            data = templates.expand_text(path, data, recorder.root)
        result = charts.merged(result, _parsed(path, data))
    inline = (job["helm"]["values"] or "").encode()
    if job["templated"]:
        inline = templates.expand_text("helm.values", inline, recorder.root)
    return charts.merged(result, _parsed("helm.values", inline))


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    if len(data) > manifests.MAX_FILE_BYTES:
        raise Invalid(f"{path}: {len(data):,} bytes; the limit is {manifests.MAX_FILE_BYTES:,}")
    try:
        documents = [value for _, value in kubeyaml.load_all(data.decode("utf-8-sig"), 2)]
    except (kubeyaml.YamlError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}, {error}") from error
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise Invalid(f"{path}, line 1: values must be a single map")
    return documents[0] if documents else {}


def _capabilities(
    files: Files, values: Mapping[str, Any], recorder: ParameterRecorder
) -> dict[str, Any]:
    """Returns the cluster's version and APIs, only if the chart uses them.

    A packed subchart counts as a use, because it may use them.
    """
    packed = any(path.endswith(".tgz") for path in files)
    texts = (*files.values(), orjson.dumps(values))
    if not packed and not any(mark in text for text in texts for mark in _CLUSTER_MARKS):
        return {}
    version = recorder.value("cluster", "currentVersion")
    apis = recorder.value("cluster", "apiVersions")
    known = {"kube_version": str(version).removeprefix("v")} if version else {}
    return {**known, "api_versions": [str(api) for api in apis]} if apis else known


def _crds(
    chart: Files, values: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[manifests.LocatedObject]:
    """Yields the objects in `crds/` of a chart and its enabled subcharts, without templating."""
    found = [path for path in sorted(chart) if _is_crd(path.split("/"))]
    if wanted["ignore_crds"] or not found:
        return
    off = subcharts.switched_off(chart, values)
    for path in found:
        if path.endswith(manifests.MANIFEST_SUFFIXES) and not any(
            paths.below(path, folder) for folder in off
        ):
            yield from manifests.parse(path, chart[path])


def _is_crd(parts: Sequence[str]) -> bool:
    while len(parts) > 2 and parts[0] == "charts":
        parts = parts[2:]
    return len(parts) > 1 and parts[0] == "crds"


def _rendered(texts: str | Mapping[str, str]) -> Iterator[manifests.LocatedObject]:
    if isinstance(texts, str):
        yield from manifests.parse("(output of helm)", texts.encode())
        return
    for path in sorted(texts):
        if not path.endswith("NOTES.txt") and texts[path].strip():
            yield from manifests.parse(path, texts[path].encode())


def _is_kept(item: manifests.LocatedObject, wanted: Mapping[str, Any]) -> bool:
    metadata = item.kube_object.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    hook = annotations.get(_HOOK) if isinstance(annotations, dict) else None
    if not hook:
        return True
    events = {event.strip() for event in str(hook).split(",")}
    return not wanted["ignore_hooks"] and not events <= _TESTS


def _engine(command: Sequence[str], settings: Mapping[str, Any]) -> HelmEngine:
    return _Command(command) if command else _library(settings["memory"])


@cache
def _library(memory: int) -> "_Library":
    """Loads the library at the first chart: its Go runtime reserves unused address space."""
    sandbox.raise_memory_limit()
    try:
        import helm_python
        from helm_python import _native
    except ImportError as error:
        raise Unavailable(
            "this service needs Helm: install towline[helm], or add `helm` to the PATH"
        ) from error
    sandbox.limit_memory_from_here(memory)
    return _Library(helm_python, _native)


class _Library:
    """Helm's engine as a library; the most recently used charts stay loaded."""

    def __init__(self, api: Any, native: Any) -> None:
        self._api = api
        self._native = native
        self._loaded: OrderedDict[bytes, Any] = OrderedDict()

    def render(
        self, chart: Files, values: dict[str, Any], options: Mapping[str, Any], scratch: Path
    ) -> dict[str, str]:
        """Implements `HelmEngine.render`."""
        loaded = self._load(chart, scratch)
        try:
            # The public method does not accept a cluster version; the underlying call does.
            text = self._native.call_string(
                "helm_render",
                loaded._raw(),
                orjson.dumps(values).decode(),
                orjson.dumps(dict(options)).decode(),
            )
        except self._api.HelmError as error:
            raise Invalid(_error_text(str(error))) from error
        return orjson.loads(text)

    def _load(self, chart: Files, scratch: Path) -> Any:
        key = _fingerprint(chart)
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key]
        with tempfile.TemporaryDirectory(dir=scratch, prefix="h") as name:
            top = Path(name) / "chart"
            materialise(top, chart)
            try:
                loaded = self._loaded[key] = self._api.Chart.load(top)
            except self._api.HelmError as error:
                raise Invalid(_error_text(str(error), top)) from error
        if len(self._loaded) > _MAX_LOADED_CHARTS:
            self._loaded.popitem(last=False)[1].close()
        return loaded


def _fingerprint(chart: Files) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for path in sorted(chart):
        digest.update(f"{len(path)} {len(chart[path])} {path}".encode("utf-8", "surrogateescape"))
        digest.update(chart[path])
    return digest.digest()


class _Command:
    """The `helm` command of this machine."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def render(
        self, chart: Files, values: dict[str, Any], options: Mapping[str, Any], scratch: Path
    ) -> str:
        """Implements `HelmEngine.render`."""
        with tempfile.TemporaryDirectory(dir=scratch, prefix="h") as name:
            home = Path(name)
            materialise(home / "chart", chart)
            (home / "values.json").write_bytes(orjson.dumps(values))
            return self._run(home, options)

    def _run(self, home: Path, options: Mapping[str, Any]) -> str:
        chart = home / "chart"
        arguments = ["template", "--namespace", options["namespace"]]
        arguments += ["--values", str(home / "values.json")]
        if "kube_version" in options:
            arguments += ["--kube-version", options["kube_version"]]
        for api in options.get("api_versions", ()):
            arguments += ["--api-versions", api]
        command = [*self._command, *arguments, "--", options["name"], str(chart)]
        code, output, errors = run_tool(command, home, chart)
        if code:
            raise Invalid(_error_text(errors.decode("utf-8", "replace"), chart))
        return output.decode("utf-8", "replace")


def _error_text(text: str, chart: Path | None = None) -> str:
    """Helm's error without local paths."""
    plain = text.strip().removeprefix("Error: ")
    if chart is not None:
        plain = plain.replace(f"{chart}/", "").replace(str(chart), ".")
    words: Iterable[str] = (char if char.isprintable() else " " for char in plain[:_MAX_TOLD])
    return "helm: " + "".join(words)
