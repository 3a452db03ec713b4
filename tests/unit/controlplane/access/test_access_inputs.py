"""Inputs of the API for roles, groups, projects and tokens, as changes."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.api.inputs import (
    AccessTokenAttributes,
    ClaimPatternAttributes,
    GroupAttributes,
    KubernetesRightsAttributes,
    KubernetesRuleAttributes,
    PolicyBindingAttributes,
    ProjectAttributes,
    RoleAttributes,
    RoleRuleAttributes,
    TokenScopeAttributes,
    TrustRuleAttributes,
)
from controlplane.access.model.trust_rules import TrustRuleSpec
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.trust_rules import TrustRuleChange
from controlplane.authorization import (
    KubernetesRights,
    KubernetesRule,
    Limit,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.platform.parts import given
from core.errors import Invalid


def made(kind: Any, **fields: Any) -> Any:
    """An input; its fields are known only at run time."""
    return kind(**fields)


def test_the_rules_of_a_role_arrive_without_duplicates_and_hashable() -> None:
    rule = made(RoleRuleAttributes, verbs=[Verb.READ, Verb.READ], kinds=[ResourceKind.CLUSTER])
    kubernetes = made(
        KubernetesRightsAttributes,
        groups=["team"],
        rules=[made(KubernetesRuleAttributes, verbs=["get"])],
    )
    change = made(RoleAttributes, name="ops", rules=[rule], kubernetes=kubernetes).change()
    role = change.applied(Role("1", ""))
    assert role.rules == (Rule((Verb.READ,), (ResourceKind.CLUSTER,)),)
    assert role.kubernetes == KubernetesRights(("team",), (KubernetesRule(("get",)),))
    assert role.kubernetes.covers(role.kubernetes)


def test_an_absent_list_of_rules_changes_no_rule() -> None:
    change = made(RoleAttributes, name="ops").change()
    assert (change.rules, change.kubernetes) == (None, None)


def test_a_global_group_contains_everyone() -> None:
    change = made(GroupAttributes, name="all", global_=True).change()
    assert change == GroupChange("all", everyone=True)


def test_bindings_of_a_project_arrive_by_role() -> None:
    readers = [made(PolicyBindingAttributes, user_id="u"), None]
    change = made(ProjectAttributes, name="shop", read_bindings=readers).change()
    assert change == ProjectChange("shop", subjects={"viewer": Subjects(frozenset({"u"}))})


def test_a_binding_names_a_user_or_a_group() -> None:
    """An empty list takes the role from everybody; a binding of nobody is a mistake."""
    both = [
        made(PolicyBindingAttributes, user_id="u"),
        made(PolicyBindingAttributes, group_id="g"),
    ]
    change = made(ProjectAttributes, name="p", read_bindings=[], write_bindings=both).change()
    assert change.subjects == {
        "viewer": Subjects(),
        "editor": Subjects(frozenset({"u"}), frozenset({"g"})),
    }
    for nobody in (made(PolicyBindingAttributes), made(PolicyBindingAttributes, user_id="")):
        with pytest.raises(Invalid, match="needs userId or groupId"):
            made(ProjectAttributes, name="p", read_bindings=[*both, nobody]).change()


def test_a_list_of_bindings_has_a_limit() -> None:
    full = [made(PolicyBindingAttributes, user_id=str(number)) for number in range(500)]
    assert (
        len(made(ProjectAttributes, name="p", read_bindings=full).change().subjects["viewer"].users)
        == 500
    )
    with pytest.raises(Invalid, match="bindings: must have at most 500"):
        made(ProjectAttributes, name="p", read_bindings=[*full, None]).change()


@pytest.mark.parametrize(("days", "expected"), [(None, 90), (1, 1), (0, 0), (366, 366)])
def test_a_token_lives_for_days(days: int | None, expected: int) -> None:
    token = made(AccessTokenAttributes, name="ci", expires_in_days=days)
    assert token.lifetime() == timedelta(days=expected)
    with pytest.raises(Invalid, match="must be 1 to 366 days") as error:
        made(AccessTokenAttributes, name="ci", expires_in_days=2**31 - 1).lifetime()
    assert error.value.field == "expiresInDays"


def test_claims_of_a_trust_rule_arrive_by_name() -> None:
    claims = [made(ClaimPatternAttributes, name="env", value="prod")]
    fields: dict[str, Any] = {"issuer": "https://ci", "audience": "towline", "subject": "repo:*"}
    change = made(TrustRuleAttributes, **fields).change()
    assert change == TrustRuleChange(spec=given(TrustRuleSpec, **fields))
    change = made(TrustRuleAttributes, **fields, claims=claims).change()
    assert change == TrustRuleChange(spec=given(TrustRuleSpec, **fields, claims={"env": "prod"}))


def test_scopes_of_a_token_have_limits() -> None:
    accepted = made(TokenScopeAttributes, verbs=[Verb.READ], scopes=["project:a"]).change()
    assert accepted == Limit((Verb.READ,), (), (Scope("project:a"),))
    for scopes, limit in ((["project:a"] * 501, "500 entries"), (["x" * 65], "64 characters")):
        with pytest.raises(Invalid, match=f"scopes: must have at most {limit}"):
            made(TokenScopeAttributes, scopes=scopes).change()
