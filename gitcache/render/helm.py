"""Renders Helm charts: merges values, renders templates, keeps or drops hooks."""

import hashlib
import re
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from core.errors import Invalid, Unavailable
from core.json_object import JsonMapping, JsonObject
from core.spec.renderers import HELM, HelmRelease
from gitcache.domain import paths
from gitcache.domain.references import ChartRef, References
from gitcache.render import charts, kubeyaml, manifests, sandbox, subcharts, templates
from gitcache.render.helmignore import HELMIGNORE, without_ignored
from gitcache.render.parameters import ParameterRecorder
from gitcache.render.renderer import Files, Renderer, RenderTool, ToolCommand, WorkerJob
from gitcache.render.tool_runner import run_tool, write_files

if TYPE_CHECKING:
    # Workers do not plan, and should start fast.
    from gitcache.render.plan import CommitRoot, Planning, RenderPlan

CHART_SCHEMES = ("https://", "http://", "oci://")
NO_REPOSITORY = "has no supported repository: set an https or oci URL, or add the chart to charts/"
_HOOK = "helm.sh/hook"
_TEST_HOOKS = {"test", "test-success", "test-failure"}
_CAPABILITY_WORDS = (b"Capabilities", b"kubeVersion")
_MAX_MESSAGE_CHARS = 2000
_SEPARATOR = re.compile(r"^---(?!-)[ \t]*\n?", re.MULTILINE)
_MAX_LOADED_CHARTS = 8
_FETCHED_CHART = ".fetched-chart"
_TOOL = RenderTool(
    "Helm",
    "install helm-python-sdk, or add `helm` to the PATH",
    library="helm-python-sdk",
    commands=(ToolCommand("helm", version=("version", "--short")),),
)


class HelmEngine(Protocol):
    """Renders the files of a chart, given by their path in it."""

    def render(
        self, chart: Files, values: JsonObject, options: JsonMapping, scratch: Path
    ) -> str | dict[str, str]:
        """Returns texts by template, or one text. Raises Invalid with Helm's error."""
        ...


class Helm(Renderer):
    """Renders a chart: CRDs first, then templates by path. Its settings are a `HelmRelease`."""

    name = HELM
    detected_by = (charts.CHART,)
    reference_files = r"(Chart|requirements)\.(yaml|lock)|charts/(.*\.tgz|(.*/)?Chart\.yaml)"
    references_by_name = (".tgz",)
    tool = _TOOL
    uses_liquid = False

    async def plan(
        self, planning: "Planning", origin: "CommitRoot", plan: "RenderPlan", *, any_sources: bool
    ) -> "RenderPlan":
        helm = plan.request.helm or HelmRelease("release", "default")
        plan = replace(plan, settings=asdict(helm))
        plan = await planning.add_reads(origin, plan, _values_files(plan.folder, helm))
        if origin.has_charts:
            root = paths.child(plan.folder, _FETCHED_CHART)
            pin = await planning.charts.find_by_sha(origin.spec, plan.request.commit)
            return replace(plan, root=root, pins={root: pin})
        if helm.url:
            chart_ref = ChartRef(
                helm.url, helm.chart or "", helm.version or "", origin.spec.project
            )
            root = paths.child(plan.folder, _FETCHED_CHART)
            return replace(plan, root=root, pins={root: await planning.charts.pin(chart_ref)})
        root = paths.resolve_inside(plan.folder, helm.chart or "", "chart")
        plan = replace(plan, root=root)
        if any_sources and await planning.find(origin, root) is None:
            return plan
        chart_tree = await planning.folder(origin, root, plan.request.commit)
        plan = await planning.add_reads(origin, plan, [root])
        for chart in (await planning.references(origin, chart_tree, plan)).charts:
            plan = await _with_dependency(planning, origin, plan, chart)
        return plan

    def references(self, folder: str, files: Files) -> References:
        if paths.child(folder, charts.CHART) not in files:
            return References()
        dependencies = charts.dependencies(folder, files)
        return References(charts=[ChartRef(**dependency) for dependency in dependencies])

    def render(self, job: WorkerJob) -> list[manifests.LocatedObject]:
        release = HelmRelease(**job.settings)
        files = with_archives(job.archives, job.files)
        chart = files_below(files, job.root)
        values = _merged_values(job, release, files)
        options = {
            "name": release.release,
            "namespace": release.namespace,
            **_used_capabilities(chart, values, job.parameters),
        }
        engine = select_engine(job.command, job.memory)
        return manifests.collect(
            chart_objects(engine, chart, values, options, release, job.scratch)
        )


def chart_objects(
    engine: HelmEngine,
    chart: Files,
    values: JsonObject,
    options: JsonMapping,
    release: HelmRelease,
    scratch: Path,
) -> Iterator[manifests.LocatedObject]:
    """Yields the objects of a release: CRDs first, then templates by path, without tests."""
    texts = engine.render(chart, values, options, scratch)
    for located in (*_crds(chart, values, release), *_template_objects(texts)):
        if _is_included(located, release):
            yield located


async def _with_dependency(
    planning: "Planning", origin: "CommitRoot", plan: "RenderPlan", chart: ChartRef
) -> "RenderPlan":
    folder = paths.child(plan.root, f"charts/{chart.name}")
    if not chart.repository.startswith("file://"):
        if not chart.repository.startswith(CHART_SCHEMES):
            raise Invalid(f"the chart's dependency {chart.name!r} {NO_REPOSITORY}")
        pin = await planning.charts.pin(replace(chart, project=origin.spec.project))
        return replace(plan, pins={**plan.pins, folder: pin})
    path = paths.resolve_inside(plan.root, chart.repository.removeprefix("file://"), "dependencies")
    plan = await planning.mount(origin, plan, path, folder)
    return await planning.add_reads(origin, plan, [path])


def _values_files(folder: str, helm: HelmRelease) -> list[str]:
    return [paths.resolve_inside(folder, file, "valuesFiles") for file in helm.values_files]


def with_archives(archives: Mapping[str, str], files: Files) -> Mapping[str, bytes]:
    """Unpacks fetched chart archives into their target folders."""
    if not archives:
        return files
    result = {path: data for path, data in files.items() if path not in archives}
    for name, target in archives.items():
        unpacked = charts.unpack(files[name])
        result |= {paths.child(target, path): data for path, data in unpacked.items()}
    return result


def files_below(files: Files, root: str) -> dict[str, bytes]:
    """Returns the files of a folder by their path in it."""
    return {
        path.removeprefix(f"{root}/") if root else path: data
        for path, data in files.items()
        if paths.is_below(path, root)
    }


def _merged_values(job: WorkerJob, helm: HelmRelease, files: Files) -> dict[str, object]:
    """Merges values files in order, then inline values; later ones win."""
    result: dict[str, object] = {}
    for path in _values_files(job.folder, helm):
        if path not in files:
            raise Invalid(f"values file {path!r} is not in this commit")
        data = files[path]
        if not job.templated:
            templates.check_untemplated({path: data})
        elif path.endswith(templates.TEMPLATE_SUFFIX):
            data = templates.expand_text(path, data, job.parameters.root)
        result = charts.merge_values(result, parse_values(path, data))
    inline = (helm.values or "").encode()
    if job.templated:
        inline = templates.expand_text("helm.values", inline, job.parameters.root)
    return charts.merge_values(result, parse_values("helm.values", inline))


def parse_values(path: str, data: bytes) -> JsonObject:
    """Parses a values file. Raises Invalid, naming the file."""
    documents = kubeyaml.load_file(path, data, 2)
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise Invalid(f"{path}, line 1: values must be a single map")
    return documents[0] if documents else {}


def _used_capabilities(
    files: Files, values: JsonMapping, recorder: ParameterRecorder
) -> JsonObject:
    """Returns the cluster's version and APIs, only if the chart uses them.

    A packed subchart counts as a use, because it may use them.
    """
    has_archives = any(path.endswith(".tgz") for path in files)
    texts = (*files.values(), orjson.dumps(values))
    if not has_archives and not any(word in text for text in texts for word in _CAPABILITY_WORDS):
        return {}
    version = recorder.value("cluster", "currentVersion")
    apis = recorder.value("cluster", "apiVersions")
    capabilities = {"kube_version": str(version).removeprefix("v")} if version else {}
    return {**capabilities, "api_versions": [str(api) for api in apis]} if apis else capabilities


def _crds(
    chart: Files, values: JsonMapping, release: HelmRelease
) -> Iterator[manifests.LocatedObject]:
    """Yields the objects in `crds/` of a chart and its enabled subcharts, without templating."""
    crds = {path: data for path, data in chart.items() if _is_crd(path.split("/"))}
    if release.ignore_crds or not crds:
        return
    # For templates, the engine itself leaves out what the file names.
    included = without_ignored(crds, chart.get(HELMIGNORE, b""))
    disabled = subcharts.disabled_subcharts(chart, values)
    for path in sorted(included):
        if path.endswith(manifests.MANIFEST_SUFFIXES) and not any(
            paths.is_below(path, folder) for folder in disabled
        ):
            yield from manifests.parse(path, included[path])


def _is_crd(parts: Sequence[str]) -> bool:
    while len(parts) > 2 and parts[0] == "charts":
        parts = parts[2:]
    return len(parts) > 1 and parts[0] == "crds"


def _template_objects(texts: str | Mapping[str, str]) -> Iterator[manifests.LocatedObject]:
    if isinstance(texts, str):
        yield from manifests.parse("(output of helm)", texts.encode())
        return
    for path in sorted(texts):
        if not path.endswith("NOTES.txt") and texts[path].strip():
            yield from manifests.parse(path, _separate_documents(texts[path]).encode())


def _separate_documents(text: str) -> str:
    """Ends documents as Helm does: a line break after each, which text blocks with `|+` keep, and
    after separators such as `---# comment`.
    """
    return _SEPARATOR.sub("\n---\n", text) + "\n"


def _is_included(item: manifests.LocatedObject, release: HelmRelease) -> bool:
    metadata = item.kube_object.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    hook = annotations.get(_HOOK) if isinstance(annotations, dict) else None
    if not hook:
        return True
    events = {event.strip() for event in str(hook).split(",")}
    return not release.ignore_hooks and not events <= _TEST_HOOKS


def select_engine(command: Sequence[str], memory: int) -> HelmEngine:
    """Returns the engine: the library, or a command."""
    return _HelmCommand(command) if command else _load_library(memory)


@cache
def _load_library(memory: int) -> "_HelmLibrary":
    """Loads the library at the first chart: its Go runtime reserves unused address space."""
    sandbox.raise_memory_limit()
    try:
        import helm_python
        from helm_python import _native
    except ImportError as error:
        raise Unavailable(_TOOL.missing) from error
    sandbox.limit_memory_from_here(memory)
    return _HelmLibrary(helm_python, _native)


class _HelmLibrary:
    """Helm's engine as a library; the most recently used charts stay loaded."""

    def __init__(self, api: Any, native: Any) -> None:
        self._api = api
        self._native = native
        self._loaded: OrderedDict[bytes, Any] = OrderedDict()

    def render(
        self, chart: Files, values: JsonObject, options: JsonMapping, scratch: Path
    ) -> dict[str, str]:
        """Implements `HelmEngine.render`."""
        loaded = self._load_chart(chart, scratch)
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

    def _load_chart(self, chart: Files, scratch: Path) -> Any:
        key = _fingerprint(chart)
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key]
        with tempfile.TemporaryDirectory(dir=scratch, prefix="h") as name:
            top = Path(name) / "chart"
            write_files(top, chart)
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


class _HelmCommand:
    """The `helm` command of this machine."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def render(self, chart: Files, values: JsonObject, options: JsonMapping, scratch: Path) -> str:
        """Implements `HelmEngine.render`."""
        with tempfile.TemporaryDirectory(dir=scratch, prefix="h") as name:
            home = Path(name)
            write_files(home / "chart", chart)
            (home / "values.json").write_bytes(orjson.dumps(values))
            return self._run(home, options)

    def _run(self, home: Path, options: JsonMapping) -> str:
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
    """Returns Helm's error without local paths."""
    message = text.strip().removeprefix("Error: ")
    if chart is not None:
        message = message.replace(f"{chart}/", "").replace(str(chart), ".")
    printable: Iterable[str] = (
        char if char.isprintable() else " " for char in message[:_MAX_MESSAGE_CHARS]
    )
    return "helm: " + "".join(printable)
