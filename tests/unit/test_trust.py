"""Each threat and each promise that the documentation names has its tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/reference/threats.md", ROOT / "docs/reference/promises.md"]
SECURITY = ROOT / "docs/explanation/security.md"
SHOWN = re.compile(r"\[(\w+)\]\((?:\.\./)+(tests/[\w/]+\.py)\)")


def shown_by(text: str) -> list[tuple[str, str]]:
    """Names and files of the tests that a text links to."""
    return SHOWN.findall(text)


def has_test(file: str, name: str) -> bool:
    return bool(re.search(rf"^\s*(async )?def test_{name}\(", (ROOT / file).read_text(), re.M))


@pytest.mark.parametrize("page", [*PAGES, SECURITY], ids=lambda page: page.stem)
def test_every_test_that_is_named_is_there(page: Path) -> None:
    gone = [
        f"{file}: {name}" for name, file in shown_by(page.read_text()) if not has_test(file, name)
    ]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_is_shown_by_a_test(page: Path) -> None:
    tables = page.read_text().partition("## Not shown yet")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and "---" not in line]
    claims = [row for row in rows if not row.endswith("shown by |")]
    assert len(claims) > 30
    assert [row for row in claims if not shown_by(row)] == []


def test_every_sentence_on_what_a_thief_can_do_is_shown_by_a_test() -> None:
    stolen = SECURITY.read_text().partition("## What is stolen")[2].partition("\n## ")[0]
    rows = [line for line in stolen.splitlines() if line.startswith("| ")]
    claims = [row for row in rows if not row.endswith("shown by |")]
    assert len(claims) > 20
    assert [row for row in claims if not shown_by(row)] == []


def test_no_class_of_threats_is_left_out() -> None:
    named = re.findall(r"^\| ([CD]\d+) \|", PAGES[0].read_text(), re.M)
    assert named == [f"C{n}" for n in range(1, 24)] + [f"D{n}" for n in range(1, 11)]
