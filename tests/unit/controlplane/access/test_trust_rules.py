"""Trust rules: their limits, permissions and patterns."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.sign_in import Claims
from controlplane.access.model.trust_rules import TrustRule, TrustRuleSpec
from controlplane.access.model.users import UserKind
from controlplane.access.operations.trust_rules import (
    MAX_RULES_PER_ISSUER,
    TrustRuleChange,
    TrustRules,
)
from controlplane.access.ports import TrustRuleStore
from controlplane.authorization import ANONYMOUS
from controlplane.platform.parts import Given, column_values, given
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from tests.fakes.access import USER_MANAGER, bind, make_user
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA = make_user("ada")
BOT = replace(make_user("bot"), kind=UserKind.SERVICE_ACCOUNT)
OTHER = replace(make_user("other"), kind=UserKind.SERVICE_ACCOUNT)
SPEC = TrustRuleSpec("bot", "https://ci", "towline", "repo:*", {"ref": "refs/heads/*"}, 30)
RULE = TrustRule("rule", "ci", START, START, SPEC)
CLAIMS = Claims("https://ci", "repo:fleet", START, raw={"aud": "towline", "ref": "refs/heads/main"})


def new(name: str | None = "ci", **fields: Any) -> TrustRuleChange:
    """Returns a whole rule: `SPEC` with other values in some fields."""
    return TrustRuleChange(name, Given(column_values(replace(SPEC, **fields))))


def change_of(**fields: Any) -> TrustRuleChange:
    return TrustRuleChange(spec=given(TrustRuleSpec, **fields))


CHANGE = new()


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def rules(world: MemoryOperations) -> TrustRules:
    return TrustRules(world.context)


async def test_a_trust_rule_is_created_changed_and_deleted(
    world: MemoryOperations, rules: TrustRules
) -> None:
    await world.given(BOT, OTHER)
    rule = await rules.create(ADMIN, CHANGE)
    assert (rule.name, rule.spec) == ("ci", SPEC)
    assert await rules.all(ADMIN) == [rule]
    await world.clock.advance(1)
    changed = await rules.update(
        ADMIN, rule.id, change_of(service_account_id="other", claims={}, keys="{}")
    )
    spec = replace(SPEC, service_account_id="other", claims={}, keys="{}")
    assert changed == replace(rule, spec=spec, updated_at=world.clock.now())
    assert await rules.all(ADMIN) == [changed]
    unset = await rules.update(ADMIN, rule.id, change_of(keys=""))
    assert unset.spec == replace(spec, keys=None)
    assert await rules.delete(ADMIN, rule.id) == unset
    assert await world.rows(TrustRuleStore) == []
    assert await world.audited() == [
        (ADMIN.email, "createTrustRule", "ci"),
        (ADMIN.email, "updateTrustRule", "ci"),
        (ADMIN.email, "updateTrustRule", "ci"),
        (ADMIN.email, "deleteTrustRule", "ci"),
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (new(name=None), "name"),
        (new("No Label"), "name"),
        (new(service_account_id=None), "serviceAccount"),
        (new(issuer=None), "issuer"),
        (new(issuer="http://ci"), "issuer"),
        (new(issuer="https://" + "x" * 505), "issuer"),
        (new(audience=""), "audience"),
        (new(subject=None), "subject"),
        (new(subject="x" * 513), "subject"),
        (new(minutes=0), "minutes"),
        (new(minutes=1441), "minutes"),
        (new(claims={str(n): "x" for n in range(21)}), "claims"),
        (new(claims={"c" * 513: "x"}), "claims"),
        (new(claims={"c": "x" * 513}), "claims"),
        (new(subject="**", claims={}), "subject"),
        (new(keys="x" * (64 * 1024 + 1)), "keys"),
    ],
)
async def test_an_invalid_trust_rule_is_refused(
    world: MemoryOperations, rules: TrustRules, change: TrustRuleChange, field: str
) -> None:
    await world.given(BOT)
    with pytest.raises(Invalid) as error:
        await rules.create(ADMIN, change)
    assert error.value.field == field
    assert await world.rows(TrustRuleStore) == [] and await world.audited() == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (TrustRuleChange(name="other"), "name"),
        (change_of(subject="*", claims={}), "subject"),
        (change_of(issuer=""), "issuer"),
    ],
)
async def test_an_invalid_change_of_a_trust_rule_is_refused(
    world: MemoryOperations, rules: TrustRules, change: TrustRuleChange, field: str
) -> None:
    await world.given(BOT, RULE)
    with pytest.raises(Invalid) as error:
        await rules.update(ADMIN, "rule", change)
    assert error.value.field == field
    assert await world.rows(TrustRuleStore) == [RULE] and await world.audited() == []


@pytest.mark.parametrize(
    "change",
    [
        new(issuer="https://" + "x" * 504, audience="x" * 512, subject="x" * 512),
        new(minutes=1440, claims={f"{n:0512}": "x" * 512 for n in range(20)}),
        new(minutes=1, subject="*", keys="x" * 64 * 1024),
    ],
)
async def test_a_trust_rule_at_the_limits_is_accepted(
    world: MemoryOperations, rules: TrustRules, change: TrustRuleChange
) -> None:
    await world.given(BOT)
    assert (await rules.create(ADMIN, change)).spec == change.applied(SPEC)


async def test_two_trust_rules_have_different_names(
    world: MemoryOperations, rules: TrustRules
) -> None:
    await world.given(BOT, RULE)
    with pytest.raises(Conflict, match="trust rule 'ci' already exists"):
        await rules.create(ADMIN, CHANGE)
    assert await world.rows(TrustRuleStore) == [RULE]


async def test_a_trust_rule_needs_a_service_account_with_no_more_permissions(
    world: MemoryOperations, rules: TrustRules
) -> None:
    await world.given(ADA, BOT, OTHER, RULE, bind("viewer", BOT))
    for actor, id, error in (
        (ADMIN, "ada", NotFound),
        (ADMIN, "none", NotFound),
        (USER_MANAGER, "bot", Forbidden),
        (EDITOR, "bot", Forbidden),
        (ANONYMOUS, "bot", Unauthenticated),
    ):
        with pytest.raises(error):
            await rules.create(actor, new("new", service_account_id=id))
    calls: list[Any] = [
        rules.all(EDITOR),
        rules.delete(EDITOR, "rule"),
        rules.update(EDITOR, "rule", change_of(minutes=1)),
        rules.update(USER_MANAGER, "rule", change_of(minutes=1)),
        rules.update(USER_MANAGER, "rule", change_of(service_account_id="other")),
    ]
    for call in calls:
        with pytest.raises(Forbidden):
            await call
    for missing in (rules.delete(ADMIN, "none"), rules.update(ADMIN, "none", TrustRuleChange())):
        with pytest.raises(NotFound):
            await missing
    assert await world.rows(TrustRuleStore) == [RULE] and await world.audited() == []


async def test_an_issuer_has_at_most_100_rules(world: MemoryOperations, rules: TrustRules) -> None:
    others = [replace(RULE, id=str(n), name=str(n)) for n in range(MAX_RULES_PER_ISSUER - 1)]
    await world.given(BOT, *others)
    last = await rules.create(ADMIN, CHANGE)
    with pytest.raises(Invalid, match="100 rules") as error:
        await rules.create(ADMIN, new("more"))
    assert error.value.field == "issuer"
    await rules.update(ADMIN, last.id, change_of(minutes=5))
    other = await rules.create(ADMIN, new("other", issuer="https://other"))
    with pytest.raises(Invalid, match="100 rules"):
        await rules.update(ADMIN, other.id, change_of(issuer="https://ci"))


@pytest.mark.parametrize(
    ("subject", "claims"),
    [
        ("*", {}),
        ("**", {}),
        ("?*", {}),
        ("[!x]*", {}),
        ("*", {"x": "*"}),
        ("*", {"x": "?*", "y": "*"}),
    ],
)
def test_a_rule_that_trusts_every_token_is_refused(subject: str, claims: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="would trust every token"):
        replace(SPEC, subject=subject, claims=claims).checked()


def test_an_absent_claim_matches_no_pattern() -> None:
    spec = replace(SPEC, claims={"ref": "*"})
    assert spec.matches(CLAIMS)
    assert not spec.matches(replace(CLAIMS, raw={"aud": "towline"}))


def test_all_claims_of_a_rule_must_match() -> None:
    raw = {"ref": "main", "environment": "dev"}
    for claims, expected in (
        ({"ref": "main", "environment": "dev"}, True),
        ({"ref": "main", "environment": "prod"}, False),
        ({"ref": "v*", "environment": "dev"}, False),
    ):
        assert replace(SPEC, claims=claims).matches(replace(CLAIMS, raw=raw)) is expected
