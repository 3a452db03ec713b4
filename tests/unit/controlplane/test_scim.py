"""SCIM users and groups, parsed as each directory writes them."""

from dataclasses import astuple

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
        ({"op": "replace", "path": "externalId", "value": ""}, UserPush(external_id="")),
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


NAMES_OF_PARTS = [
    ({"formatted": "Ada L", "givenName": "Ada"}, "Ada L"),
    ({"givenName": "Ada", "familyName": "Lovelace"}, "Ada Lovelace"),
    ({"GivenName": "Ada", "familyName": ""}, "Ada"),
    ({"familyName": None, "title": "Countess"}, None),
    ("Ada", None),
]


@pytest.mark.parametrize(("name", "expected"), NAMES_OF_PARTS)
def test_a_person_without_a_display_name_is_named_by_the_parts(
    name: object, expected: str | None
) -> None:
    body = {"userName": "ada@example.org", "name": name}
    assert scim.parse_user(body).name == expected
    assert scim.parse_user({**body, "displayName": "The Countess"}).name == "The Countess"


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "userName": st.sampled_from(["a@b.c", "d@e.f"]),
        "displayName": st.sampled_from(["Ada", "Eve"]),
        "externalId": st.sampled_from(["x1", "x2"]),
        "active": st.sampled_from([True, False, "True", "false"]),
    },
)


@given(st.lists(FIELDS, min_size=1, max_size=4))
def test_the_last_operation_on_an_attribute_counts(changes: list[dict[str, object]]) -> None:
    """Operations on other attributes leave it as it is."""
    merged = {name: value for change in changes for name, value in change.items()}
    active = None if "active" not in merged else str(merged["active"]).lower() == "true"
    expected = (merged.get("userName"), merged.get("displayName"), merged.get("externalId"), active)
    whole = patch(*({"op": "replace", "value": change} for change in changes))
    assert astuple(scim.parse_user_patch(whole)) == expected
    steps = [pair for change in changes for pair in change.items()]
    if steps:
        one_by_one = ({"op": "add", "path": name, "value": value} for name, value in steps)
        assert astuple(scim.parse_user_patch(patch(*one_by_one))) == expected


def test_a_removed_attribute_of_a_group_is_its_id_of_the_directory() -> None:
    """A group keeps its name, and other attributes are unknown here."""
    for path, expected in (("externalId", ""), ("displayName", None), ("title", None)):
        push = scim.parse_group_patch(patch({"op": "remove", "path": path}))
        assert push == GroupPush(external_id=expected)
        assert scim.parse_user_patch(patch({"op": "remove", "path": path})) == (
            UserPush(external_id=expected)
        )


def test_later_operations_replace_the_attributes_of_a_group() -> None:
    push = scim.parse_group_patch(
        patch(
            {"op": "add", "path": "externalId", "value": "g1"},
            {"op": "add", "path": "displayName", "value": "crew"},
            {"op": "replace", "value": {"externalId": "g2"}},
            {"op": "add", "path": "members", "value": [{"value": "a"}]},
        )
    )
    assert (push.name, push.external_id, push.members(())) == ("crew", "g2", {"a"})


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


def test_ids_in_paths_keep_their_case() -> None:
    push = scim.parse_group_patch(patch({"op": "remove", "path": 'Members[value eq "Ab"]'}))
    assert push.members({"ab", "Ab"}) == {"ab"}


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
        {"userName": "a" * 321},
        {"userName": "a@b.c", "externalId": "x" * 256},
        {"userName": "a@b.c", "name": {"formatted": "n" * 256}},
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
    assert len(scim.parse_group({"displayName": "all", "members": many[1:]}).members(())) == 10_000
    scim.parse_user_patch(patch(*[{"op": "add", "path": "title"}] * 1_000))


@pytest.mark.parametrize("operations", [None, [], 5, {}, {"op": "add"}, "add"])
def test_a_patch_needs_a_list_of_operations(operations: object) -> None:
    with pytest.raises(Invalid):
        scim.parse_user_patch({"Operations": operations})


def test_attributes_at_their_limits_are_accepted() -> None:
    push = scim.parse_user(
        {"userName": "a" * 320, "displayName": "n" * 255, "externalId": "x" * 255}
    )
    assert push == UserPush("a" * 320, "n" * 255, "x" * 255)


def test_a_group_needs_a_name() -> None:
    with pytest.raises(Invalid, match="displayName"):
        scim.parse_group({"externalId": "g1"})


def test_filters_compare_one_attribute() -> None:
    known = ("userName", "externalId")
    assert scim.parse_filter('username Eq "ada@example.org"', known) == AttributeFilter(
        "username", "ada@example.org"
    )
    assert scim.parse_filter("", known) is None
    others = ('name eq "x"', 'userName sw "a"', 'userName eq "a" or id eq "b"')
    for text in ("userName", *others, 'userName eq "a\x85b"'):
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
