"""The commands on secrets request and show no value."""

from typing import Any

import pytest
from graphql import GraphQLObjectType

from tests.fakes.empty_control_plane import schema
from towline.cli.secrets.secrets import problem_of


@pytest.mark.parametrize("kind", ["Secret", "SecretVersion", "SecretUse", "DataKey"])
def test_no_type_of_the_api_has_a_field_for_a_value(kind: str) -> None:
    """Values are written only; what is sealed or wrapped is not shown either."""
    shown = schema().type_map[kind]
    assert isinstance(shown, GraphQLObjectType)
    assert not {"value", "valueBase64", "sealed", "wrapped", "plain"} & shown.fields.keys()


def test_a_list_of_secrets_says_why_a_rotation_is_held() -> None:
    held: Any = {"phase": "HELD", "reason": "not healthy with version 2: shop"}
    secret: Any = {"problem": None, "rotation": held}
    assert problem_of(secret) == held["reason"]
    rolling: Any = {"problem": None, "rotation": {**held, "phase": "ROLLING"}}
    assert problem_of(rolling) == ""
    broken: Any = {"problem": "no such path", "rotation": None}
    assert problem_of(broken) == "no such path"
