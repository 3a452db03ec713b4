"""Alerts and dashboard ask only for what there is, and each alert tells what to do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

promql = pytest.importorskip("promql_parser", reason="`make charts` installs it")

ROOT = Path(__file__).parents[3]
RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.yaml"))
DASHBOARD = ROOT / "deploy" / "grafana" / "towline.json"
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks.md"
DOCUMENTED = re.compile(r"^\| `(towline_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)

Json = dict[str, Any]


def rules() -> list[Json]:
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[Json]:
    return [rule for rule in rules() if "alert" in rule]


def panels() -> list[Json]:
    """The panels that show something."""
    found = json.loads(DASHBOARD.read_text())["panels"]
    return [one for one in found if one["type"] != "row"]


def questions() -> Iterator[tuple[str, str]]:
    """(where it stands, PromQL) of everything that is asked."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def documented() -> dict[str, set[str]]:
    """Each sample that the page of metrics promises, with its labels."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    samples: dict[str, set[str]] = {one["record"]: set() for one in rules() if "record" in one}
    for name, kind, labels in DOCUMENTED.findall(page):
        words = set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", labels)))
        if kind == "histogram":
            samples |= {f"{name}_bucket": words | {"le"}, f"{name}_count": words}
        else:
            samples[name] = words
    return samples


def selectors(expression: Any) -> Iterator[tuple[str, set[str]]]:
    """(metric, labels it is chosen by) of all selectors in an expression."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        elif isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)

    promql.walk(expression, visit)
    for one in {id(one): one for one in found}.values():
        yield one.name, {matcher.name for matcher in one.matchers.matchers}


@pytest.mark.parametrize(("where", "text"), list(questions()))
def test_every_question_is_about_what_there_is(where: str, text: str) -> None:
    """It parses, and names documented metrics with labels that they have."""
    known = documented()
    asked = list(selectors(promql.parse(text)))
    assert asked
    for name, labels in asked:
        if name == "up" or name.startswith("process_"):
            assert labels <= {"job"}
        else:
            assert name in known, where
            assert labels <= known[name], where


def test_every_alert_waits_has_a_severity_and_a_runbook() -> None:
    headings = set(re.findall(r"^## (Towline\w+)$", RUNBOOKS.read_text(), re.MULTILINE))
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    assert set(names) == headings
    for rule in alerts():
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert (
            rule["annotations"]["runbook_url"] == f"docs/how-to/runbooks.md#{rule['alert'].lower()}"
        )
        assert rule["annotations"]["summary"]


def test_panels_have_a_place_of_their_own() -> None:
    """None overlaps another, and each has its own number."""
    every = json.loads(DASHBOARD.read_text())["panels"]
    assert len({one["id"] for one in every}) == len(every)
    cells = [
        (x, y)
        for place in (one["gridPos"] for one in every)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
