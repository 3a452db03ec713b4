"""The documents of Terraform's core operations, the client that sends them, and the API."""

from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLSchema,
    is_required_input_field,
    parse,
    validate,
)
from graphql.utilities import is_type_sub_type_of

from tests.fakes.empty_control_plane import schema
from tests.terraform.provider import (
    NOT_FOUND,
    Failed,
    Gone,
    Undecodable,
    contract,
    decoded,
    definitions,
    document,
)
from tests.terraform.table import PAGE, operations, page

ROOT = Path(__file__).parents[3]
OPERATIONS = sorted(definitions()[0])
ID = {"data": {"deleteCluster": {"id": "1"}}}
RBAC = {"data": {"updateRbac": True}}


@pytest.fixture(scope="module")
def api() -> GraphQLSchema:
    """The API as it is."""
    return schema()


def test_there_are_40_operations() -> None:
    assert len(OPERATIONS) == 40


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_is_valid_against_the_api_and_the_contract(api: GraphQLSchema, name: str) -> None:
    parsed = parse(document(name))
    assert [str(error) for error in validate(contract(), parsed)] == []
    assert [str(error) for error in validate(api, parsed)] == []


def test_inputs_take_all_values_of_the_contract(api: GraphQLSchema) -> None:
    """A document may declare variables of nested types, or lists with nulls."""
    for name, kind in contract().type_map.items():
        if not isinstance(kind, GraphQLInputObjectType):
            continue
        ours = api.type_map[name]
        assert isinstance(ours, GraphQLInputObjectType)
        for key, field in kind.fields.items():
            assert is_type_sub_type_of(
                contract(), field.type, _of_contract(ours.fields[key].type)
            ), f"{name}.{key}: {field.type}, but {ours.fields[key].type}"
        given = {key for key in ours.fields if key not in kind.fields}
        assert not [key for key in given if is_required_input_field(ours.fields[key])], name


def _of_contract(kind: Any) -> Any:
    """Returns a type of the API with the names of the contract."""
    if isinstance(kind, GraphQLNonNull | GraphQLList):
        return type(kind)(_of_contract(kind.of_type))
    return contract().type_map[kind.name]


def test_enums_that_clients_decode_have_no_further_values(api: GraphQLSchema) -> None:
    """Clients that were built with closed enums fail on a word that they do not know."""
    for name, kind in contract().type_map.items():
        if isinstance(kind, GraphQLEnumType) and not name.startswith("__"):
            ours = api.type_map[name]
            assert isinstance(ours, GraphQLEnumType)
            assert ours.values.keys() == kind.values.keys(), name


@pytest.mark.parametrize(
    ("name", "response", "raised"),
    [
        ("DeleteCluster", {**ID, "errors": None}, Undecodable),
        ("DeleteCluster", {**ID, "errors": []}, Undecodable),
        ("DeleteCluster", {"data": {"deleteCluster": {"id": 1}}}, Undecodable),
        ("DeleteCluster", {"data": {"deleteCluster": {"id": "1", "name": "x"}}}, Undecodable),
        ("DeleteCluster", {"data": {"deleteCluster": {}}}, Undecodable),
        ("DeleteCluster", {"data": {"deleteCluster": None}}, Undecodable),
        ("DeleteCluster", {**ID, "request": "x"}, Undecodable),
        ("UpdateRbac", {"data": {"updateRbac": "true"}}, Undecodable),
        ("DeleteCluster", {"errors": [{"message": NOT_FOUND}], "data": None}, Gone),
        ("DeleteCluster", {"errors": [{"message": f"{NOT_FOUND}!"}], "data": None}, Failed),
    ],
)
def test_the_client_is_as_strict_as_the_provider(
    name: str, response: dict[str, Any], raised: type[Exception]
) -> None:
    with pytest.raises(raised) as caught:
        decoded(definitions()[0][name], response)
    assert type(caught.value) is raised


def test_the_client_takes_what_the_provider_takes() -> None:
    """Extensions pass; a null for a text that must be reads as the empty one."""
    assert decoded(definitions()[0]["UpdateRbac"], {**RBAC, "extensions": {}}) is True
    nothing = {"data": {"deleteCluster": {"id": None}}}
    assert decoded(definitions()[0]["DeleteCluster"], nothing) == {"id": ""}


def test_the_table_of_operations_is_what_the_documents_say() -> None:
    """`python -m tests.terraform.table` would change nothing."""
    assert sorted(name for name, _ in operations()) == OPERATIONS
    assert PAGE.read_text() == page()
