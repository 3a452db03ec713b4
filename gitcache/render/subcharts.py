"""Finds disabled subcharts by conditions and tags, like Helm.

Helm's engine skips the templates of disabled subcharts, but does not handle their CRDs.
"""

from collections.abc import Iterator, Mapping

from gitcache.domain import paths
from gitcache.render import charts

Values = Mapping[str, object]


def disabled_subcharts(files: Mapping[str, bytes], values: Values) -> set[str]:
    """Returns the folders of disabled subcharts, such as `charts/db`.

    `files` maps paths in the chart to contents; `values` win over the chart's own values.
    """
    return set(_disabled("", files, values, values))


def _disabled(chart: str, files: Mapping[str, bytes], top: Values, values: Values) -> Iterator[str]:
    values = charts.merge_values(charts.own_values(chart, files), values)
    for dependency in charts.dependency_entries(chart, files):
        name = dependency["name"]
        folder = paths.child(chart, f"charts/{name}")
        subchart_values = values.get(dependency.get("alias") or name)
        if not _is_enabled(dependency, top if chart else values, values):
            yield folder
        elif paths.child(folder, charts.CHART) in files:
            yield from _disabled(
                folder, files, top, subchart_values if isinstance(subchart_values, dict) else {}
            )


def _is_enabled(dependency: Mapping[str, object], top: Values, values: Values) -> bool:
    """Evaluates the first condition with a value, else the tags; the default is enabled."""
    for path in str(dependency.get("condition") or "").split(","):
        condition = _value_at(values, path.strip())
        if isinstance(condition, bool):
            return condition
    tags = top.get("tags")
    dependency_tags = dependency.get("tags")
    tag_values = [
        tags[tag]
        for tag in (dependency_tags if isinstance(dependency_tags, list) else ())
        if isinstance(tags, dict) and isinstance(tags.get(tag), bool)
    ]
    return any(tag_values) or not tag_values


def _value_at(values: object, path: str) -> object:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values
