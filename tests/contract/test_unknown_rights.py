"""A replica reads rights that a newer one wrote beside it: what it does not know, it denies."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, text

from controlplane.access.model.users import Token
from controlplane.access.ports import RoleStore, TokenStore
from controlplane.authorization import Grant, Policy, Resource, ResourceKind, Role, Rule, Verb
from controlplane.platform.store.columns import JSON_TEXT
from controlplane.platform.store.transaction import SqlStore
from core.identity import TokenKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = Resource.within(ResourceKind.PIPELINE, "shop", "p1")
CLUSTER = Resource.within(ResourceKind.CLUSTER, "shop", "c1")
EVERYTHING = Role("all", "all", rules=(Rule(),))


async def write_raw(sql_store: SqlStore, table: str, column: str, values: list[Any]) -> None:
    """Like a newer replica: writes into the rows `0`, `1`, and so on."""
    statement = text(f"UPDATE {table} SET {column} = :value WHERE id = :id")
    typed = statement.bindparams(bindparam("value", type_=JSON_TEXT))
    async with sql_store._engine.begin() as connection:
        rows = [{"id": str(number), "value": value} for number, value in enumerate(values)]
        await connection.execute(typed, rows)


async def roles_of(sql_store: SqlStore, *written: list[dict[str, Any]]) -> list[Role]:
    """Roles with these rules, as they are read."""
    async with sql_store.write() as tx:
        for number in range(len(written)):
            await tx[RoleStore].add(Role(str(number), str(number), NOW, NOW))
    await write_raw(sql_store, "roles", "rules", list(written))
    async with sql_store.read() as tx:
        return sorted(await tx[RoleStore].all(), key=lambda role: role.id)


async def test_a_rule_with_an_unknown_verb_still_grants_its_known_verbs(
    sql_store: SqlStore,
) -> None:
    newer = {"verbs": ["approve", "foresee"], "kinds": ["pipeline", "planet"], "moons": ["io"]}
    (role,) = await roles_of(sql_store, [newer])
    policy = Policy((Grant(role),))
    assert policy.may(Verb.APPROVE, PIPELINE)
    assert not policy.may(Verb.READ, PIPELINE)
    assert not policy.may(Verb.APPROVE, CLUSTER)


async def test_a_rule_of_unknown_names_alone_allows_nothing(sql_store: SqlStore) -> None:
    """No list of verbs would be all of them."""
    *unknown, everything = await roles_of(
        sql_store,
        [{"verbs": ["foresee"], "kinds": ["pipeline"]}],
        [{"verbs": ["read"], "kinds": ["planet"]}],
        [{"verbs": ["foresee"], "kinds": []}],
        [{"verbs": [], "kinds": []}],
    )
    assert [role.rights for role in unknown] == [frozenset()] * 3
    assert everything.rights == EVERYTHING.rights


async def test_a_limit_gets_no_wider(sql_store: SqlStore) -> None:
    """A token whose limits are not understood does what is understood of them, and no more."""
    newer: list[tuple[list[dict[str, Any]], set[Resource]]] = [
        ([{"verbs": ["foresee"]}], set()),
        ([{"kinds": ["planet"], "verbs": ["read"]}], set()),
        ([{"verbs": ["read", "foresee"]}], {PIPELINE, CLUSTER}),
        ([{"verbs": ["foresee"]}, {"kinds": ["cluster"]}], {CLUSTER}),
        ([], {PIPELINE, CLUSTER}),
    ]
    async with sql_store.write() as tx:
        for number in range(len(newer)):
            await tx[TokenStore].add(Token(str(number), TokenKind.USER, "t", f"hash{number}", NOW))
    await write_raw(sql_store, "tokens", "limits", [limits for limits, _ in newer])
    async with sql_store.read() as tx:
        tokens = sorted(await tx[TokenStore].all(), key=lambda token: token.id)
    for token, (_, allowed) in zip(tokens, newer, strict=True):
        policy = Policy((Grant(EVERYTHING),), limits=token.limits)
        assert {one for one in (PIPELINE, CLUSTER) if policy.may(Verb.READ, one)} == allowed
        assert {one for one in (PIPELINE, CLUSTER) if not policy.visible(one.kind)} == allowed
