"""Enabled charts inside a chart."""

import pytest

from core.errors import Invalid
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


NESTED = """apiVersion: v2
name: mid
version: 1.0.0
dependencies: [{name: leaf, version: 1.0.0, tags: [storage], condition: leaf.enabled}]
"""


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ({}, set()),
        ({"tags": {"storage": False}}, {"charts/mid/charts/leaf"}),
        ({"mid": {"tags": {"storage": False}}}, set()),
        ({"renamed": {"leaf": {"enabled": False}}}, {"charts/mid/charts/leaf"}),
        ({"mid": {"leaf": {"enabled": False}}}, set()),
    ],
)
def test_a_chart_in_a_chart_has_the_values_of_its_alias_and_the_tags_of_the_top(
    given: dict, off: set[str]
) -> None:
    """The top chart is one of Helm 2, with a file of requirements."""
    chart = {
        "Chart.yaml": b"apiVersion: v1\nname: top\nversion: 1.0.0\n",
        "requirements.yaml": b"dependencies: [{name: mid, version: 1.0.0, alias: renamed}]\n",
        "charts/mid/Chart.yaml": NESTED.encode(),
    }
    assert disabled_subcharts(chart, given) == off


def test_more_dependencies_than_the_limit_are_refused_at_any_depth() -> None:
    """Those beyond it would count as enabled."""
    many = "".join(f"- {{name: c{number}, version: '1'}}\n" for number in range(65))
    chart = {
        "Chart.yaml": b"name: top\nversion: '1'\ndependencies: [{name: mid, version: '1'}]\n",
        "charts/mid/Chart.yaml": f"name: mid\nversion: '1'\ndependencies:\n{many}".encode(),
    }
    with pytest.raises(Invalid, match="more than 64 dependencies"):
        disabled_subcharts(chart, {})


@pytest.mark.parametrize("entry", ["text", "{version: 1.0.0}", "{name: 3}"])
def test_a_dependency_without_a_name_is_no_subchart(entry: str) -> None:
    chart = {"Chart.yaml": f"name: top\ndependencies: [{entry}]\n".encode()}
    assert disabled_subcharts(chart, {"tags": {"a": False}}) == set()


@pytest.mark.parametrize("values", ["- a", "text", "a: 1\n---\nb: 1\n---\nc: 1\n"])
def test_values_of_a_chart_are_one_map(values: str) -> None:
    with pytest.raises(Invalid, match=r"^values\.yaml, "):
        disabled_subcharts(files(values), {})
