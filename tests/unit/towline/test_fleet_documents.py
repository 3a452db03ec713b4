"""What the commands on services for a fleet ask for exists in the API."""

from pathlib import Path

import pytest
from graphql import build_schema, parse, validate

from towline.cli import generator_documents as fleet

SCHEMA = build_schema((Path(__file__).parents[3] / "schema.graphql").read_text())
SORTS = {one.root: one for one in (fleet.GLOBALS, fleet.SETS, fleet.NAMESPACES, fleet.GROUPS)}
WHOLE = {
    name: value
    for name, value in vars(fleet).items()
    if name.isupper() and isinstance(value, str) and value.startswith(("query", "mutation"))
}
VERBS = [
    (root, verb)
    for root in SORTS
    for verb in ("every", "one", "create", "update", "delete", "sync", "services")
    if root != "clusterGroup" or verb not in ("sync", "services")
]


@pytest.mark.parametrize(("root", "verb"), VERBS)
def test_what_is_asked_of_each_sort_is_in_the_schema(root: str, verb: str) -> None:
    assert validate(SCHEMA, parse(getattr(SORTS[root], verb))) == []


@pytest.mark.parametrize("document", WHOLE.values(), ids=WHOLE)
def test_all_else_is_in_the_schema(document: str) -> None:
    assert validate(SCHEMA, parse(document)) == []


def test_none_is_left_out() -> None:
    assert len(WHOLE) >= 7 and len(VERBS) == 26
