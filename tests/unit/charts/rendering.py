"""Charts rendered by Helm's engine, as objects."""

from pathlib import Path
from typing import Any

import pytest
import yaml

helm = pytest.importorskip("helm_python", reason="`make charts` installs Helm's engine")

CHARTS = Path(__file__).parents[3] / "charts"
NAMES = ("towline", "towline-agent")

Json = dict[str, Any]

VALUE_SETS = [
    pytest.param(path.parents[1].name, path, id=f"{path.parents[1].name}-{path.stem[:-7]}")
    for name in NAMES
    for path in sorted((CHARTS / name / "ci").glob("*-values.yaml"))
]


def values_of(chart: str, name: str) -> Json:
    """One of the chart's own sets of values."""
    return yaml.safe_load((CHARTS / chart / "ci" / f"{name}-values.yaml").read_text())


def render(
    chart: str,
    values: Json,
    *,
    name: str | None = None,
    namespace: str = "towline",
    charts: Path = CHARTS,
) -> list[Json]:
    """The objects of a release. helm.HelmError: Helm refuses the values, with its words."""
    texts = _texts(charts / chart, values, name or chart, namespace)
    documents = (text for path, text in texts.items() if path.endswith(".yaml"))
    return [one for text in documents for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def notes(chart: str, values: Json) -> str:
    """Text that Helm prints after an installation."""
    return _texts(CHARTS / chart, values, chart, "towline")[f"{chart}/templates/NOTES.txt"]


def of_kind(objects: list[Json], kind: str, suffix: str = "") -> Json:
    """The only object of this kind whose name ends so."""
    (found,) = [
        one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(suffix)
    ]
    return found


def workloads_of(objects: list[Json]) -> list[Json]:
    """Objects of a release that create pods."""
    return [one for one in objects if one["kind"] in {"Deployment", "StatefulSet"}]


def pod_of(objects: list[Json], part: str | None = None) -> Json:
    """The pod spec of a release's workload for this component, by default its main one."""
    wanted = {part} if part else {"control-plane", "agent"}
    (workload,) = [
        one
        for one in workloads_of(objects)
        if one["metadata"]["labels"]["app.kubernetes.io/component"] in wanted
    ]
    return workload["spec"]["template"]["spec"]


def settings_file(objects: list[Json], suffix: str = "") -> str:
    """The file of settings that a workload of the control plane's chart is given."""
    named = [
        one
        for one in objects
        if one["kind"] == "ConfigMap"
        and one["metadata"]["name"].endswith("-gitcache") == bool(suffix)
    ]
    return named[0]["data"]["towline.toml"]


def _texts(chart: Path, values: Json, name: str, namespace: str) -> dict[str, str]:
    with helm.Chart.load(chart) as loaded:
        loaded.validate_schema(values)
        return loaded.render(values, name=name, namespace=namespace)
