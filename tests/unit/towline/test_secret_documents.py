"""What the commands on secrets and configuration ask for exists in the API, and asks no value."""

from pathlib import Path

import pytest
from graphql import GraphQLObjectType, build_schema, parse, validate

from towline.cli import flow_documents, secret_documents
from towline.cli.secrets import problem_of

SCHEMA = build_schema((Path(__file__).parents[3] / "schema.graphql").read_text())
DOCUMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (secret_documents, flow_documents)
    for name, value in vars(module).items()
    if name.isupper() and not name.startswith("_")
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_each_document_is_in_the_schema(document: str) -> None:
    assert validate(SCHEMA, parse(document)) == []


@pytest.mark.parametrize("kind", ["Secret", "SecretVersion", "SecretUse", "DataKey"])
def test_no_type_of_the_api_has_a_field_for_a_value(kind: str) -> None:
    """Values are written only; what is sealed or wrapped is not shown either."""
    shown = SCHEMA.type_map[kind]
    assert isinstance(shown, GraphQLObjectType)
    assert not {"value", "valueBase64", "sealed", "wrapped", "plain"} & shown.fields.keys()


def test_a_list_of_secrets_says_why_a_rotation_is_held() -> None:
    held = {"phase": "HELD", "reason": "not healthy with version 2: shop"}
    assert problem_of({"problem": None, "rotation": held}) == held["reason"]
    assert problem_of({"problem": None, "rotation": {**held, "phase": "ROLLING"}}) == ""
    assert problem_of({"problem": "no such path", "rotation": None}) == "no such path"
