"""What the command line asks for exists in the API."""

from pathlib import Path

import pytest
from graphql import build_schema, parse, validate

from towline.cli.shell import documents

SCHEMA = build_schema((Path(__file__).parents[3] / "schema.graphql").read_text())
DOCUMENTS = {name: value for name, value in vars(documents).items() if name.isupper()}
DOCUMENTS = {name: value for name, value in DOCUMENTS.items() if not name.startswith("_")}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_document_is_valid_against_the_schema(document: str) -> None:
    assert validate(SCHEMA, parse(document)) == []


def test_every_document_has_a_name_of_its_own() -> None:
    names = [parse(one).definitions[0].to_dict()["name"]["value"] for one in DOCUMENTS.values()]
    assert len(set(names)) == len(names) == len(DOCUMENTS) > 30
