"""Messages about wrong input say what to do, and never the input."""

from typing import Any

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLSyntaxError,
    parse,
    validate,
)
from graphql.utilities import validate_input_value
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.schema import schema
from controlplane.platform.graphql.input_errors import without_input

SECRET = "hunter2"
TYPES = schema._schema.type_map
INPUTS = sorted(name for name, kind in TYPES.items() if isinstance(kind, GraphQLInputObjectType))
SECRETS = st.recursive(
    st.sampled_from([SECRET, f"{SECRET}: found: {SECRET}", f"a\n{SECRET}'."]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("key"), inner, max_size=1),
    max_leaves=3,
)


def errors(kind: Any, value: object) -> list[str]:
    found: list[GraphQLError] = []
    validate_input_value(value, kind, lambda error, path: found.append(error))
    prefix = "Variable '$attributes' has invalid value at .a[0]: "
    return [text for error in found for text in (error.message, f"{prefix}{error.message}")]


@given(st.data())
def test_no_message_contains_the_input(data: st.DataObject) -> None:
    kind: Any = TYPES[data.draw(st.sampled_from(INPUTS))]
    names = st.sampled_from([*kind.fields, "unknown"])
    value = data.draw(st.dictionaries(names, SECRETS, max_size=4) | SECRETS)
    for message in errors(kind, value):
        assert SECRET not in without_input(message), message


@pytest.mark.parametrize(
    ("literal", "said"),
    [
        (f'{{password: "{SECRET}"}}', "GitAttributes needs the field 'url'"),
        (f'{{url: "a", password: ["{SECRET}"]}}', "String cannot represent a non string value"),
        (f'{{url: "a", passwrd: "{SECRET}"}}', "GitAttributes has no field 'passwrd'"),
        (f'"{SECRET}"', "GitAttributes is an object"),
    ],
)
def test_values_in_documents_are_left_out_too(literal: str, said: str) -> None:
    document = parse(f"mutation {{ createGitRepository(attributes: {literal}) {{ id }} }}")
    messages = [without_input(error.message) for error in validate(schema._schema, document)]
    assert any(said in message for message in messages), messages
    assert SECRET not in " ".join(messages)


@pytest.mark.parametrize("query", [f'{{ a("{SECRET}") }}', f'"""{SECRET}""" {{ a }} "{SECRET}"'])
def test_a_document_that_cannot_be_parsed_is_not_shown(query: str) -> None:
    with pytest.raises(GraphQLSyntaxError, match=SECRET) as error:
        parse(query)
    assert SECRET not in without_input(error.value.message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Variable '$attributes' has invalid value at .fence.sources[0]: Expected value of type "
            "'SourceRuleAttributes' to include required field 'url', found: {'a': 'b'}.",
            "attributes.fence.sources[0]: SourceRuleAttributes needs the field 'url'",
        ),
        (
            "Variable '$attributes' has invalid value: Expected value of type 'GitAttributes' not "
            "to include unknown field 'passwrd'. Did you mean 'password'? Found: {'passwrd': 'x'}.",
            "attributes: GitAttributes has no field 'passwrd'. Did you mean 'password'?",
        ),
        (
            "Variable '$role' has invalid value: Value 'king' does not exist in 'Role' enum.",
            "role: 'king' is not a value of Role",
        ),
        (
            "Variable '$role' has invalid value: Value 'hunter2' does not exist in 'Role' enum.",
            "role: not a value of Role",
        ),
        (
            "Variable '$id' has invalid value: Expected value of non-null type 'ID!' not to be "
            "None.",
            "id: must not be null",
        ),
        ("Cannot query field 'x' on type 'Query'.", "Cannot query field 'x' on type 'Query'."),
    ],
)
def test_a_message_names_the_place_and_the_reason(message: str, said: str) -> None:
    assert without_input(message) == said


def test_every_enum_hides_an_unknown_value() -> None:
    for kind in TYPES.values():
        if isinstance(kind, GraphQLEnumType):
            for value in (SECRET, [SECRET], {"a": SECRET}):
                for message in errors(kind, value):
                    assert SECRET not in without_input(message), message
