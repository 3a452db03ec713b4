"""A replica reads rights that a newer one wrote beside it: what it does not know, it denies."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import bindparam, text

from controlplane.domain.access import Grant, Kind, Limit, Policy, Role, Rule, Target, Verb
from controlplane.domain.people import Token
from controlplane.storage.columns import JSON_TEXT
from controlplane.storage.store import SqlStore
from fleet.identity import TokenKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = Target.within(Kind.PIPELINE, None, "p1")
CLUSTER = Target.within(Kind.CLUSTER, None, "c1")
EVERYTHING = Role("all", "all", rules=(Rule(),))


async def write_raw(store: SqlStore, table: str, column: str, value: Any) -> None:
    """As the newer replica does it, into all rows."""
    statement = text(f"UPDATE {table} SET {column} = :value")
    async with store._engine.begin() as connection:
        await connection.execute(
            statement.bindparams(bindparam("value", type_=JSON_TEXT)), {"value": value}
        )


async def role_of(store: SqlStore, rules: list[dict[str, Any]]) -> Role:
    """A role with these rules, as it is read."""
    async with store.write() as tx:
        await tx.roles.add(Role("r", "r", NOW, NOW))
    await write_raw(store, "roles", "rules", rules)
    async with store.read() as tx:
        (role,) = await tx.roles.select()
    return role


async def test_what_a_rule_says_beside_an_unknown_verb_still_holds(store: SqlStore) -> None:
    newer = {"verbs": ["approve", "foresee"], "kinds": ["pipeline", "planet"], "moons": ["io"]}
    policy = Policy((Grant(await role_of(store, [newer])),))
    assert policy.may(Verb.APPROVE, PIPELINE)
    assert not policy.may(Verb.READ, PIPELINE)
    assert not policy.may(Verb.APPROVE, CLUSTER)


@pytest.mark.parametrize(
    "newer",
    [
        {"verbs": ["foresee"], "kinds": ["pipeline"]},
        {"verbs": ["read"], "kinds": ["planet"]},
        {"verbs": ["foresee"], "kinds": []},
    ],
)
async def test_a_rule_of_unknown_names_alone_allows_nothing(
    store: SqlStore, newer: dict[str, Any]
) -> None:
    """No list of verbs would be all of them."""
    assert (await role_of(store, [newer])).rights == frozenset()


async def test_a_rule_without_names_is_still_everything(store: SqlStore) -> None:
    assert (await role_of(store, [{"verbs": [], "kinds": []}])).rights == EVERYTHING.rights


@pytest.mark.parametrize(
    ("newer", "allowed"),
    [
        ([{"verbs": ["foresee"]}], set()),
        ([{"kinds": ["planet"], "verbs": ["read"]}], set()),
        ([{"verbs": ["read", "foresee"]}], {PIPELINE, CLUSTER}),
        ([{"verbs": ["foresee"]}, {"kinds": ["cluster"]}], {CLUSTER}),
        ([], {PIPELINE, CLUSTER}),
    ],
)
async def test_a_limit_gets_no_wider(
    store: SqlStore, newer: list[dict[str, Any]], allowed: set[Target]
) -> None:
    """A token whose limits are not understood does what is understood of them, and no more."""
    token = Token("t", TokenKind.USER, "t", "hash", NOW, limits=(Limit(),))
    async with store.write() as tx:
        await tx.tokens.add(token)
    await write_raw(store, "tokens", "limits", newer)
    async with store.read() as tx:
        (read,) = await tx.tokens.select()
    policy = Policy((Grant(EVERYTHING),), limits=read.limits)
    assert {one for one in (PIPELINE, CLUSTER) if policy.may(Verb.READ, one)} == allowed
    assert {one for one in (PIPELINE, CLUSTER) if not policy.visible(one.kind)} == allowed
