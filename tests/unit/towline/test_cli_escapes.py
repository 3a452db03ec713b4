"""Nothing that comes from elsewhere steers the reader's terminal."""

import json

import pytest
import yaml

from towline.cli.shell.formats import Format
from towline.cli.shell.output import colour, escape_controls, field, say, show

NASTY = "a\x1b]0;owned\x07b\x9b2Jc\x7f\u202ed\r\ud800"
COLUMNS = [field("NAME"), field("URL")]
FORMS = [
    *(Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.NAME),
    *(Format("jsonpath={..url}"), Format("custom-columns=NAME:.name")),
]
UNSAFE = set("\x1b\x07\x9b\x7f\u202e\r\ud800")


@pytest.mark.parametrize("form", FORMS)
def test_no_form_prints_what_a_terminal_obeys(
    form: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    show([{"name": NASTY, "url": f"https://{NASTY}"}], COLUMNS, form, "name")
    printed = capsys.readouterr().out
    assert "owned" in printed
    assert not UNSAFE & set(printed)


def test_programs_read_the_same_value_from_json_and_yaml(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Escaping is the form's own, so nothing is lost."""
    row = {"name": NASTY.removesuffix("\ud800")}
    show(row, COLUMNS, Format.JSON, "name")
    assert json.loads(capsys.readouterr().out) == row
    show(row, COLUMNS, Format.YAML, "name")
    assert yaml.safe_load(capsys.readouterr().out) == row


def test_hints_and_coloured_words_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"see {NASTY}")
    print(colour(NASTY, "red"))
    captured = capsys.readouterr()
    assert not UNSAFE & set(captured.err + captured.out)


def test_lines_tabs_and_every_language_stay() -> None:
    text = "one\n\ttwo – 生产 إنتاج 🚀"
    assert escape_controls(text) == text
