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


class _ChartPlace(NamedTuple):
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
    return (_ref(chart, folder) for chart in _charts(kustomization))


def chart_paths(kustomization: Kustomization) -> Iterator[str]:
    """Yields the paths that the charts of a kustomization name: values files and local charts."""
    for chart in _charts(kustomization):
        if not chart.get("repo"):
            yield paths.child(_home(kustomization), chart["name"])
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
        place = _ChartPlace(path, folder, _place(folder, chart, kustomization), chart)
        changed[paths.child(folder, name)] = _rendered(place, job, namespace)
        resources.append(name)
    kept = {key: value for key, value in kustomization.items() if key not in _FIELDS}
    changed[path] = yaml.safe_dump({**kept, "resources": resources}).encode()
    return changed


def without_mark(kube_object: KubeObject) -> KubeObject:
    """Returns an object without the annotation of objects of charts."""
    metadata = kube_object.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations"), dict):
        return kube_object
    if _GENERATED not in metadata["annotations"]:
        return kube_object
    kept = {key: value for key, value in metadata["annotations"].items() if key != _GENERATED}
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**kube_object, "metadata": {**others, **({"annotations": kept} if kept else {})}}


def _marked(kube_object: KubeObject) -> KubeObject:
    """Marks an object of a chart, whose namespace kustomize does not change."""
    metadata = kube_object.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), _GENERATED: "true"}
    return {**kube_object, "metadata": {**metadata, "annotations": annotations}}


def _rendered(place: _ChartPlace, job: WorkerJob, namespace: str) -> bytes:
    files = helm.files_below(job.files, place.top)
    if charts.CHART not in files:
        raise Invalid(f"{place.path}: {place.top!r} is not a Helm chart")
    release = _release(place.chart, namespace)
    options = {"name": release.release, "namespace": release.namespace, **_options(place.chart)}
    engine = helm.engine_of((), job.memory)
    values = _values(place, job)
    found = helm.chart_objects(engine, files, values, options, release, job.scratch)
    objects = (_marked(located.kube_object) for located in found)
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper).encode()


def _ref(chart: JsonMapping, folder: str) -> ChartRef:
    version = str(chart.get("version") or "")
    return ChartRef(str(chart.get("repo") or ""), chart["name"], version, folder=folder)


def _charts(kustomization: Kustomization) -> list[JsonObject]:
    listed = kustomization.get(_FIELD)
    found = [
        chart
        for chart in (listed if isinstance(listed, list) else ())
        if isinstance(chart, dict) and isinstance(chart.get("name"), str)
    ]
    if len(found) > _MAX_CHARTS:
        raise Invalid(f"a kustomization has more than {_MAX_CHARTS} charts")
    return found


def _home(kustomization: Kustomization) -> str:
    given = kustomization.get("helmGlobals")
    home = given.get("chartHome") if isinstance(given, dict) else None
    return home if isinstance(home, str) and home else _HOME


def _place(folder: str, chart: JsonMapping, kustomization: Kustomization) -> str:
    wanted = _ref(chart, folder)
    if wanted.repository:
        return fetched_chart(folder, wanted)
    return paths.inside(folder, paths.child(_home(kustomization), wanted.name), "chartHome")


def _values_files(chart: JsonMapping) -> list[str]:
    return [file for file in (chart.get("valuesFile"), *_additional(chart)) if file]


def _additional(chart: JsonMapping) -> list[str]:
    listed = chart.get("additionalValuesFiles")
    return [str(file) for file in listed] if isinstance(listed, list) else []


def _values(place: _ChartPlace, job: WorkerJob) -> JsonObject:
    """Merges the values as kustomize does: by default, inline values win over the values file."""

    def read(file: str) -> JsonObject:
        at = paths.inside(place.folder, file, "valuesFile")
        if at not in job.files:
            raise Invalid(f"{place.path}: values file {file!r} is not in this commit")
        return helm.parsed_values(at, job.files[at])

    chart = place.chart
    inline = chart.get("valuesInline")
    inline = inline if isinstance(inline, dict) else {}
    file = chart.get("valuesFile")
    given = read(str(file)) if file else charts.values_of(place.top, job.files)
    how = chart.get("valuesMerge") or "override"
    if how == "replace":
        values = inline or given
    else:
        values = charts.merged(inline, given) if how == "merge" else charts.merged(given, inline)
    for name in _additional(chart):
        values = charts.merged(values, read(name))
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
