"""Each promise, threat and claim on a stolen credential links to tests that exist."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"
TESTS = REFERENCE / "tests.md"
PAGES = [REFERENCE / "promises.md", REFERENCE / "threats.md", ROOT / "docs/explanation/security.md"]
# The claims are on the first pages; these link to tests too.
LINKING = [
    *PAGES,
    *(REFERENCE / f"{name}.md" for name in ("agent", "console", "git-cache", "pipelines", "world")),
]
CLAIM = re.compile(r"^\| ([PCDFS]\d+(?:\.\d+)?) \|", re.M)
LISTED = re.compile(
    r'^\| <a id="(t\d+)"></a>(T\d+) \| `(test_\w+)` \| \[.+\]\(\.\./\.\./(.+)\) \|$', re.M
)
LINK = re.compile(r"\[(T\d+)\]\([\w./-]*tests\.md#(t\d+)\)")


def claims() -> list[str]:
    """The table rows with an id, of all pages."""
    rows = [line for page in PAGES for line in page.read_text().splitlines()]
    return [row for row in rows if CLAIM.match(row)]


def listed() -> dict[str, tuple[str, str]]:
    """Test id → (file, name)."""
    return {test: (file, name) for _, test, name, file in LISTED.findall(TESTS.read_text())}


def test_ids_are_unique() -> None:
    ids = CLAIM.findall("\n".join(claims()))
    ids += [found[1] for found in LISTED.findall(TESTS.read_text())]
    assert len(ids) > 400
    assert [name for name, count in Counter(ids).items() if count > 1] == []


def test_every_row_of_the_list_is_well_formed() -> None:
    rows = [line for line in TESTS.read_text().splitlines() if line.startswith("| <a")]
    assert [row for row in rows if not LISTED.match(row)] == []
    assert [
        names for names in LISTED.findall(TESTS.read_text()) if names[0] != names[1].lower()
    ] == []


def test_every_listed_test_exists() -> None:
    texts = {file: (ROOT / file).read_text() for file, _ in listed().values()}
    gone = [
        f"{file}: {name}"
        for file, name in listed().values()
        if not re.search(rf"^\s*(async )?def {name}\(", texts[file], re.M)
    ]
    assert gone == []


def test_every_listed_test_is_linked_and_every_link_is_listed() -> None:
    linked = [link for page in LINKING for link in LINK.findall(page.read_text())]
    assert [text for text, anchor in linked if text.lower() != anchor] == []
    assert {text for text, _ in linked} == set(listed())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_claim_has_an_id_and_a_test(page: Path) -> None:
    """A table whose head names tests has an id and a link in each row."""
    tables = re.findall(r"^\| id \|.* tests \|\n\|[-|]+\|\n((?:\|.*\n?)+)", page.read_text(), re.M)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 20
    assert [row for row in rows if not CLAIM.match(row) or not LINK.search(row)] == []


def test_every_claim_is_one_sentence() -> None:
    """One row, one claim: the claim ends with its only full stop and has at most 25 words."""
    texts = [row.split(" | ")[-2] for row in claims() if not row.startswith("| F")]
    assert [text for text in texts if not re.fullmatch(r"[^.;]+\.", text)] == []
    assert [text for text in texts if len(text.split()) > 25] == []


def test_no_class_of_threats_is_left_out() -> None:
    named = re.findall(r"^\| ([CD]\d+)\.1 \|", (REFERENCE / "threats.md").read_text(), re.M)
    assert named == [f"C{n}" for n in range(1, 24)] + [f"D{n}" for n in range(1, 16)]
