"""SCIM users and groups, parsed as each directory writes them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.model import scim
from controlplane.access.model.scim import AttributeFilter, GroupPush, UserPush
from core.errors import Invalid

OKTA = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
    "userName": "ada@example.org",
    "name": {"givenName": "Ada", "familyName": "Lovelace"},
    "emails": [{"primary": True, "value": "ada@example.org", "type": "work"}],
    "displayName": "Ada Lovelace",
    "locale": "en-US",
    "externalId": "00u1",
    "groups": [],
    "password": "1mz050nq",
    "active": True,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "Replace", "REMOVE", "move"])},
    optional={
        "path": st.sampled_from(["active", "members", 'members[value eq "u1"]', "name.x", "[", ""]),
        "value": VALUES | st.fixed_dictionaries({"members": VALUES, "active": VALUES}),
    },
)


def patch(*operations: object) -> dict[str, object]:
    return {"Operations": list(operations)}


def test_a_person_as_okta_writes_them() -> None:
    pushed = UserPush("ada@example.org", "Ada Lovelace", "00u1", True)
    assert scim.parse_user(OKTA) == pushed
    assert scim.parse_user({**OKTA, "displayName": None}) == pushed


@pytest.mark.parametrize(
    ("operation", "pushed"),
    [
        ({"op": "replace", "value": {"active": False}}, UserPush(active=False)),
        ({"op": "Replace", "path": "active", "value": "False"}, UserPush(active=False)),
        ({"op": "Add", "path": "displayName", "value": "Ada"}, UserPush(name="Ada")),
        ({"op": "add", "value": {"name.formatted": "Ada"}}, UserPush(name="Ada")),
        ({"op": "remove", "path": "externalId"}, UserPush(external_id="")),
        ({"op": "replace", "path": "title", "value": "Countess"}, UserPush()),
        (
            {"op": "add", "path": 'addresses[type eq "work"].locality', "value": "London"},
            UserPush(),
        ),
        (
            {
                "op": "replace",
                "path": "urn:ietf:params:scim:schemas:core:2.0:User:userName",
                "value": "a@b.c",
            },
            UserPush("a@b.c"),
        ),
        (
            {
                "op": "add",
                "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
                "value": "x",
            },
            UserPush(),
        ),
    ],
)
def test_changes_of_a_person_as_directories_write_them(
    operation: dict[str, object], pushed: UserPush
) -> None:
    """Okta without a path, Entra with one and truth as text; what is not kept is passed over."""
    assert scim.parse_user_patch(patch(operation)) == pushed


def test_members_come_and_go_in_the_order_of_the_operations() -> None:
    push = scim.parse_group_patch(
        patch(
            {"op": "Add", "path": "members", "value": [{"value": "b"}, {"value": "c"}]},
            {"op": "Remove", "path": 'members[value eq "a"]'},
            {"op": "remove", "path": "members", "value": [{"value": "c"}]},
            {"op": "replace", "value": {"id": "g1", "displayName": "crew"}},
        )
    )
    assert (push.name, push.members({"a", "x"})) == ("crew", {"b", "x"})
    everybody = scim.parse_group_patch(patch({"op": "remove", "path": "members"}))
    assert everybody.members({"a", "x"}) == frozenset()


def test_a_group_without_members_leaves_those_it_has() -> None:
    assert scim.parse_group({"displayName": "crew"}) == GroupPush("crew")
    assert scim.parse_group({"displayName": "crew", "members": []}).members({"a"}) == frozenset()


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"userName": 5},
        {"userName": "a@b.c", "active": "perhaps"},
        {"userName": "a@b.c", "displayName": "x" * 256},
        {"userName": "a@b.c", "externalId": "\x00"},
        {"displayName": "nobody"},
    ],
)
def test_an_invalid_user_is_refused(body: object) -> None:
    with pytest.raises(Invalid):
        scim.parse_user(body)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "move", "path": "members"},
        {"op": "remove"},
        {"op": "add", "path": 'members[value eq "a"]', "value": {}},
        {"op": "add", "path": "members", "value": ["a"]},
        {"op": "add", "path": "members", "value": [{"value": "a\x00"}]},
        {"op": "add", "path": "a b", "value": 1},
        {"op": "add", "path": ["members"], "value": 1},
        {"op": "add", "value": "text"},
        "add",
    ],
)
def test_an_invalid_group_patch_is_refused(operation: object) -> None:
    with pytest.raises(Invalid):
        scim.parse_group_patch(patch(operation))


def test_too_many_at_once_are_refused() -> None:
    with pytest.raises(Invalid, match="Operations"):
        scim.parse_user_patch(patch(*[{"op": "add"}] * (scim.MAX_EDITS + 1)))
    many = [{"value": f"u{n}"} for n in range(scim.MAX_MEMBERS + 1)]
    with pytest.raises(Invalid, match="members"):
        scim.parse_group({"displayName": "all", "members": many})


def test_filters_compare_one_attribute() -> None:
    known = ("userName", "externalId")
    assert scim.parse_filter('username Eq "ada@example.org"', known) == AttributeFilter(
        "username", "ada@example.org"
    )
    assert scim.parse_filter("", known) is None
    for text in ("userName", 'name eq "x"', 'userName sw "a"', 'userName eq "a" or id eq "b"'):
        with pytest.raises(Invalid, match="userName eq"):
            scim.parse_filter(text, known)


@given(st.lists(OPERATION, min_size=1, max_size=4))
def test_any_operations_are_read_or_refused_with_a_sentence(operations: list[object]) -> None:
    """Whatever JSON comes, and never otherwise than by `Invalid`."""
    body = orjson.loads(orjson.dumps(patch(*operations)))
    for read in (scim.parse_user_patch, scim.parse_group_patch):
        try:
            read(body)
        except Invalid as refused:
            assert refused.message
