"""Finds disabled subcharts by conditions and tags, like Helm.

Helm's engine skips the templates of disabled subcharts, but does not handle their CRDs.
"""

from collections.abc import Iterator, Mapping

from gitcache.domain import paths
from gitcache.render import charts

Values = Mapping[str, object]


def switched_off(files: Mapping[str, bytes], values: Values) -> set[str]:
    """Returns the folders of disabled subcharts, such as `charts/db`.

    `files` maps paths in the chart to contents; `values` win over the chart's own values.
    """
    return set(_off("", files, values, values))


def _off(chart: str, files: Mapping[str, bytes], top: Values, values: Values) -> Iterator[str]:
    values = charts.merged(charts.values_of(chart, files), values)
    for dependency in charts.listed(chart, files):
        name = dependency["name"]
        folder = paths.child(chart, f"charts/{name}")
        below = values.get(dependency.get("alias") or name)
        if not _is_on(dependency, top if chart else values, values):
            yield folder
        elif paths.child(folder, charts.CHART) in files:
            yield from _off(folder, files, top, below if isinstance(below, dict) else {})


def _is_on(dependency: Mapping[str, object], top: Values, values: Values) -> bool:
    """Evaluates the first condition with a value, else the tags; the default is enabled."""
    for path in str(dependency.get("condition") or "").split(","):
        found = _at(values, path.strip())
        if isinstance(found, bool):
            return found
    tags = top.get("tags")
    named = dependency.get("tags")
    tag_values = [
        tags[tag]
        for tag in (named if isinstance(named, list) else ())
        if isinstance(tags, dict) and isinstance(tags.get(tag), bool)
    ]
    return any(tag_values) or not tag_values


def _at(values: object, path: str) -> object:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values
