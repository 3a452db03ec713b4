"""Prose is extracted line by line, and the rules of the prose linter find what they name."""

import re
from pathlib import Path

import pytest
import yaml

from docs.prose.lint import PACKAGES
from docs.prose.texts import console_texts, help_texts, python_docs, schema_docs

STYLES = Path(__file__).parents[2] / "docs/prose/styles"


def lines(text: str) -> dict[int, str]:
    """Line number → text, without empty lines."""
    return {number: line for number, line in enumerate(text.splitlines(), 1) if line}


def test_docstrings_keep_their_lines() -> None:
    source = '"""Module."""\n\nx = 1\n\n\ndef f():\n    """Does f.\n\n    Raises X.\n    """\n'
    assert lines(python_docs(source)) == {1: "§ Module.", 7: "§ Does f.", 9: "Raises X."}


def test_descriptions_of_a_schema_keep_their_lines() -> None:
    source = '"""One line."""\ntype A {\n  """\n  Two\n  lines.\n  """\n  b: Int\n}\n'
    assert lines(schema_docs(source)) == {1: "§ One line.", 4: "§ Two", 5: "lines."}


def test_comments_keep_their_lines_and_pragmas_are_none() -> None:
    source = "# Why.\nx = 1  # noqa: E501\n# ty: ignore[x]\n    # Because.\n"
    assert lines(python_docs(source)) == {1: "Why.", 4: "Because."}


def test_messages_are_texts_and_queries_are_none() -> None:
    source = 'x = f"{name}: no such cluster, check it"\ny = "SELECT a FROM b"\nz = "deploy/dev"\n'
    assert lines(python_docs(source)) == {1: ": no such cluster, check it"}


def test_texts_of_the_console_keep_their_lines() -> None:
    source = '<p>\n<b>All the pods</b>\n<Field label="Name" hint="In small letters" />\n'
    assert lines(console_texts(source)) == {2: "§ All the pods", 3: "§ Name / § In small letters"}


def test_help_texts_are_descriptions_only() -> None:
    page = (
        "# Page\n```text\nUsage: towline x [OPTIONS]\n\n  Does x.\n\nOptions:\n"
        "  --a <str>  Value of a,\n             in full.\n  -f, --force  Overwrite.\n```\n"
    )
    assert lines(help_texts(page)) == {
        1: "# Page",
        5: "Does x.",
        8: "§ Value of a,",
        9: "in full.",
        10: "§ Overwrite.",
    }


@pytest.mark.parametrize("rule", ["Terms", "Plain"])
def test_no_suggestion_uses_a_banned_word(rule: str) -> None:
    swap = yaml.safe_load((STYLES / f"Towline/{rule}.yml").read_text())["swap"]
    banned = re.compile("|".join(swap), re.IGNORECASE)
    assert [text for text in swap.values() if banned.search(text)] == []


def test_every_package_is_read() -> None:
    """A new package is linted too."""
    packages = {path.parent.name for path in STYLES.parents[2].glob("*/__init__.py")}
    assert packages - {"bench", "tests"} == set(PACKAGES)
