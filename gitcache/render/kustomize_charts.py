"""Renders the charts of kustomizations (`helmCharts`), so that kustomize needs no Helm.

Each chart becomes a manifest file among the resources of its kustomization, where kustomize puts
the objects of a chart as well.
"""

import hashlib
import posixpath
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from core.spec.bundle import KubeObject
from core.spec.renderers import HelmRelease
from gitcache.domain import paths
from gitcache.domain.references import ChartRef
from gitcache.render import charts, helm
from gitcache.render.renderer import Files, WorkerJob

_FETCHED = ".fetched-charts"
_FIELD = "helmCharts"
_FIELDS = {_FIELD, "helmGlobals"}
_HOME = "charts"
_MAX_CHARTS = 64
# kustomize marks objects of charts so, and leaves their namespace to Helm.
_GENERATED = "internal.config.kubernetes.io/helm-generated"
Kustomization = JsonMapping


class _ChartLocation(NamedTuple):
    """A chart of the kustomization at `path`, and the folder `top` of its files."""

    path: str
    folder: str
    top: str
    chart: JsonMapping


def has_charts(kustomization: Kustomization) -> bool:
    """Returns whether a kustomization has charts."""
    return bool(kustomization.get(_FIELD))


def chart_refs(folder: str, kustomization: Kustomization) -> Iterator[ChartRef]:
    """Yields the charts of a folder's kustomization; those of the commit have no repository."""
    return (_chart_ref(chart, folder) for chart in _charts(kustomization))


def chart_paths(kustomization: Kustomization) -> Iterator[str]:
    """Yields the paths that the charts of a kustomization name: values files and local charts."""
    for chart in _charts(kustomization):
        if not chart.get("repo"):
            yield paths.child(_chart_home(kustomization), chart["name"])
        yield from _values_files(chart)


def fetched_chart(folder: str, chart: ChartRef) -> str:
    """Returns the folder of a fetched chart."""
    exact = f"{chart.repository} {chart.name} {chart.version}"
    return paths.child(folder, f"{_FETCHED}/{hashlib.sha256(exact.encode()).hexdigest()[:16]}")


def inflate(path: str, kustomization: Kustomization, job: WorkerJob, namespace: str) -> Files:
    """Renders the charts of the kustomization at a path; returns the files that change.

    `namespace` is that of the nearest kustomization around, for charts without one.
    """
    folder = posixpath.dirname(path)
    resources = [*(kustomization.get("resources") or ())]
    changed: dict[str, bytes] = {}
    for number, chart in enumerate(_charts(kustomization)):
        name = f".chart-{number}.yaml"
        location = _ChartLocation(path, folder, _chart_folder(folder, chart, kustomization), chart)
        changed[paths.child(folder, name)] = _render_chart(location, job, namespace)
        resources.append(name)
    others = {key: value for key, value in kustomization.items() if key not in _FIELDS}
    changed[path] = yaml.safe_dump({**others, "resources": resources}).encode()
    return changed


def without_mark(kube_object: KubeObject) -> KubeObject:
    """Returns an object without the annotation of objects of charts."""
    metadata = kube_object.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations"), dict):
        return kube_object
    if _GENERATED not in metadata["annotations"]:
        return kube_object
    annotations = {
        key: value for key, value in metadata["annotations"].items() if key != _GENERATED
    }
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    return {
        **kube_object,
        "metadata": {**others, **({"annotations": annotations} if annotations else {})},
    }


def _with_mark(kube_object: KubeObject) -> KubeObject:
    """Marks an object of a chart, whose namespace kustomize does not change."""
    metadata = kube_object.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), _GENERATED: "true"}
    return {**kube_object, "metadata": {**metadata, "annotations": annotations}}


def _render_chart(location: _ChartLocation, job: WorkerJob, namespace: str) -> bytes:
    files = helm.files_below(job.files, location.top)
    if charts.CHART not in files:
        raise Invalid(f"{location.path}: {location.top!r} is not a Helm chart")
    release = _release(location.chart, namespace)
    options = {"name": release.release, "namespace": release.namespace, **_options(location.chart)}
    engine = helm.select_engine((), job.memory)
    values = _merged_values(location, job)
    located_objects = helm.chart_objects(engine, files, values, options, release, job.scratch)
    objects = (_with_mark(located.kube_object) for located in located_objects)
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper).encode()


def _chart_ref(chart: JsonMapping, folder: str) -> ChartRef:
    version = str(chart.get("version") or "")
    return ChartRef(str(chart.get("repo") or ""), chart["name"], version, folder=folder)


def _charts(kustomization: Kustomization) -> list[JsonObject]:
    entries = kustomization.get(_FIELD)
    named_charts = [
        chart
        for chart in (entries if isinstance(entries, list) else ())
        if isinstance(chart, dict) and isinstance(chart.get("name"), str)
    ]
    if len(named_charts) > _MAX_CHARTS:
        raise Invalid(f"a kustomization has more than {_MAX_CHARTS} charts")
    return named_charts


def _chart_home(kustomization: Kustomization) -> str:
    globals_ = kustomization.get("helmGlobals")
    home = globals_.get("chartHome") if isinstance(globals_, dict) else None
    return home if isinstance(home, str) and home else _HOME


def _chart_folder(folder: str, chart: JsonMapping, kustomization: Kustomization) -> str:
    chart_ref = _chart_ref(chart, folder)
    if chart_ref.repository:
        return fetched_chart(folder, chart_ref)
    return paths.resolve_inside(
        folder, paths.child(_chart_home(kustomization), chart_ref.name), "chartHome"
    )


def _values_files(chart: JsonMapping) -> list[str]:
    return [file for file in (chart.get("valuesFile"), *_additional_values_files(chart)) if file]


def _additional_values_files(chart: JsonMapping) -> list[str]:
    files = chart.get("additionalValuesFiles")
    return [str(file) for file in files] if isinstance(files, list) else []


def _merged_values(location: _ChartLocation, job: WorkerJob) -> JsonObject:
    """Merges the values as kustomize does: by default, inline values win over the values file."""

    def read(file: str) -> JsonObject:
        path = paths.resolve_inside(location.folder, file, "valuesFile")
        if path not in job.files:
            raise Invalid(f"{location.path}: values file {file!r} is not in this commit")
        return helm.parse_values(path, job.files[path])

    chart = location.chart
    inline = chart.get("valuesInline")
    inline = inline if isinstance(inline, dict) else {}
    file = chart.get("valuesFile")
    file_values = read(str(file)) if file else charts.own_values(location.top, job.files)
    merge_mode = chart.get("valuesMerge") or "override"
    if merge_mode == "replace":
        values = inline or file_values
    else:
        values = (
            charts.merge_values(inline, file_values)
            if merge_mode == "merge"
            else charts.merge_values(file_values, inline)
        )
    for name in _additional_values_files(chart):
        values = charts.merge_values(values, read(name))
    return values


def _release(chart: JsonMapping, namespace: str) -> HelmRelease:
    return HelmRelease(
        release=str(chart.get("releaseName") or chart["name"]),
        namespace=str(chart.get("namespace") or namespace or "default"),
        ignore_hooks=bool(chart.get("skipHooks")),
        ignore_crds=not chart.get("includeCRDs"),
    )


def _options(chart: JsonMapping) -> JsonObject:
    options: JsonObject = {}
    if chart.get("kubeVersion"):
        options["kube_version"] = str(chart["kubeVersion"]).removeprefix("v")
    if isinstance(versions := chart.get("apiVersions"), list):
        options["api_versions"] = [str(version) for version in versions]
    return options
