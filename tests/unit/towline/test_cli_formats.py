"""Output formats, by the words of kubectl."""

from typing import Any

import pytest
import typer

from core.errors import Invalid
from towline.cli.shell.formats import Format, parse_format
from towline.cli.shell.output import Column, field, show

ROWS: list[dict[str, Any]] = [
    {"id": "1", "name": "web", "tags": [{"name": "env", "value": "prod"}], "size": 3, "on": True},
    {"id": "2", "name": "db", "tags": [], "size": None, "on": False},
]
COLUMNS: tuple[Column[Any], ...] = (field("NAME"), field("SIZE", wide=True))


def shown(capsys: pytest.CaptureFixture[str], form: str, rows: Any = ROWS) -> str:
    show(rows, COLUMNS, parse_format(form), "name")
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].name}", "web db\n"),
        (".items[0].name", "web\n"),
        ("$.items[-1].name", "db\n"),
        ('{.items[?(@.name=="db")].id}', "2\n"),
        ("{.items[?(@.size>2)].name}", "web\n"),
        ("{..value}", "prod\n"),
        ("{.items[0]['name','id']}", "web 1\n"),
        ("{.items[0].tags}", '[{"name":"env","value":"prod"}]\n'),
        ("{.items[0].on} and {.items[1].size}", "true and null\n"),
        ("{.items[0].none}", "\n"),
        ('{range .items[*]}{.name}{"\\t"}{.id}{"\\n"}{end}', "web\t1\ndb\t2\n"),
        ("{range .items[*]}{@.name}:{range .tags[*]}{.value}{end};{end}", "web:prod;db:;\n"),
    ],
)
def test_jsonpath_is_that_of_kubectl(
    capsys: pytest.CaptureFixture[str], template: str, text: str
) -> None:
    assert shown(capsys, f"jsonpath={template}") == text


def test_jsonpath_of_one_resource_starts_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "jsonpath={.name}", ROWS[0]) == "web\n"


def test_custom_columns_are_those_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "custom-columns=NAME:.name,ENV:.tags[*].value,SIZE:{.size}")
    assert found.splitlines() == ["NAME  ENV     SIZE", "web   prod    3", "db    <none>  <none>"]


def test_wide_shows_more_columns_and_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "table").splitlines()[0] == "NAME"
    assert shown(capsys, "wide").splitlines()[:2] == ["NAME  SIZE  ID", "web   3     1"]


@pytest.mark.parametrize(
    "template",
    ["{.items[}", "{range .items[*]}{.name}", "{.name", "name}"],
)
def test_a_malformed_template_is_wrong_use(template: str) -> None:
    with pytest.raises(Invalid, match="jsonpath"):
        show(ROWS, COLUMNS, Format(f"jsonpath={template}"), "name")


@pytest.mark.parametrize("columns", ["NAME", ":.name", "NAME:", "A:.a,B"])
def test_malformed_columns_are_wrong_use(columns: str) -> None:
    with pytest.raises(Invalid):
        show(ROWS, COLUMNS, Format(f"custom-columns={columns}"), "name")


@pytest.mark.parametrize("form", ["xml", "jsonpath", "jsonpath=", "json=x", "", "custom-columns="])
def test_an_unknown_format_is_wrong_use(form: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not one of table, wide, json"):
        parse_format(form)
