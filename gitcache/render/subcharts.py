"""Which charts inside a chart are switched on: conditions and tags, as Helm reads them.

Helm's engine leaves out the templates of charts that are off; their CRDs it does not look at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gitcache.domain import paths
from gitcache.render import charts

Values = Mapping[str, Any]


def switched_off(files: Mapping[str, bytes], values: Values) -> set[str]:
    """Folders below a chart (`charts/db`) of the charts in it that are off.

    `files` are those of the chart, by their path in it; `values` those that win over its own.
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


def _is_on(dependency: Mapping[str, Any], top: Values, values: Values) -> bool:
    """The first condition that has a value counts, else the tags, else it is on."""
    for path in str(dependency.get("condition") or "").split(","):
        found = _at(values, path.strip())
        if isinstance(found, bool):
            return found
    tags = top.get("tags")
    named = dependency.get("tags")
    told = [
        tags[tag]
        for tag in (named if isinstance(named, list) else ())
        if isinstance(tags, dict) and isinstance(tags.get(tag), bool)
    ]
    return any(told) or not told


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values
