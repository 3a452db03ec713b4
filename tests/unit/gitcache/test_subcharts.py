"""Enabled charts inside a chart."""

import pytest

from gitcache.render.subcharts import disabled_subcharts

TOP = """apiVersion: v2
name: top
version: 1.0.0
dependencies:
  - {name: db, version: 1.0.0, condition: "db.enabled,global.db", tags: [storage]}
  - {name: web, version: 1.0.0, tags: [front, back]}
  - {name: odd, version: 1.0.0, alias: other}
"""
DB = "name: db\nversion: 1.0.0\ndependencies: [{name: log, condition: log.enabled}]\n"


def files(values: str = "") -> dict[str, bytes]:
    return {
        "Chart.yaml": TOP.encode(),
        "values.yaml": values.encode(),
        "charts/db/Chart.yaml": DB.encode(),
        "charts/db/values.yaml": b"log: {enabled: false}\n",
        "charts/web/Chart.yaml": b"apiVersion: v2\nname: web\nversion: 1.0.0\n",
    }


@pytest.mark.parametrize(
    ("own", "given", "off"),
    [
        ("", {}, {"charts/db/charts/log"}),
        ("", {"db": {"log": {"enabled": True}}}, set()),
        ("db: {enabled: false}", {}, {"charts/db"}),
        ("db: {enabled: false}", {"db": {"enabled": True, "log": {"enabled": True}}}, set()),
        ("", {"global": {"db": False}}, {"charts/db"}),
        ("", {"db": {"enabled": "no"}, "global": {"db": False}}, {"charts/db"}),
        ("", {"tags": {"storage": False}}, {"charts/db"}),
        (
            "",
            {"tags": {"storage": False}, "db": {"enabled": True, "log": {"enabled": True}}},
            set(),
        ),
        ("", {"tags": {"front": False}, "db": {"enabled": False}}, {"charts/db", "charts/web"}),
        (
            "",
            {"tags": {"front": False, "back": True}, "db": {"enabled": False}},
            {"charts/db"},
        ),
        ("", {"tags": "odd", "db": "odd"}, {"charts/db/charts/log"}),
    ],
)
def test_conditions_come_before_tags_and_values_that_are_given_before_own(
    own: str, given: dict, off: set[str]
) -> None:
    assert disabled_subcharts(files(own), given) == off
