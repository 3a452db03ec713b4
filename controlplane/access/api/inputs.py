"""Inputs of the API for users, tokens, projects, groups, roles and bindings."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import strawberry

from controlplane.access.api.enums import BuiltInRole
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.role_bindings import BindingDraft
from controlplane.access.operations.roles import RoleChange
from controlplane.access.operations.trust_rules import TrustRuleChange
from controlplane.authorization import (
    DestinationRule,
    Fence,
    ImageRule,
    KubernetesRights,
    KubernetesRule,
    Limit,
    ResourceKind,
    Rule,
    SourceRule,
    Verb,
)
from controlplane.platform.graphql.derive import Draft, FieldValues, draft
from controlplane.platform.limits import check_count, check_length
from core.errors import Invalid
from core.spec.source_signatures import SignerSet

_DEFAULT_DAYS = 90
_MAX_BINDINGS = 500


@strawberry.input
class UserAttributes:
    """Fields of a user."""

    email: str | None = None
    """E-mail address. Required on creation."""
    name: str | None = None
    """Display name."""
    role: BuiltInRole | None = None
    """Built-in role at the installation. A new user without one has no permissions until a role is
    bound."""


@strawberry.input
class ServiceAccountAttributes:
    """Fields of a service account. A field that is null or absent stays as it is."""

    name: str | None = None
    """Name. Required on creation. Limit: 63 characters."""
    email: str | None = None
    """E-mail address. Default: `NAME@service-accounts`, for a name of lower-case letters, digits
    and hyphens."""


@draft(Limit, publish_defaults=True)
class TokenScopeAttributes(Draft[Limit]):
    """Limits of a token to operations, kinds of resources and scopes. An empty list means all."""

    def change(self) -> Limit:
        limit = super().change()
        check_count(len(limit.scopes), "scopes", _MAX_BINDINGS)
        for scope in limit.scopes:
            check_length(scope, "scopes", 64)
        return limit


@strawberry.input
class AccessTokenAttributes:
    """Fields of a token."""

    name: str
    """Display name."""
    expires_in_days: int | None = None
    """Lifetime in days. Default: 90. Limit: 366."""
    scopes: list[TokenScopeAttributes] | None = None
    """Limits of the token. Default: all permissions of its owner. Limit: 20."""

    def lifetime(self) -> timedelta:
        days = _DEFAULT_DAYS if self.expires_in_days is None else self.expires_in_days
        try:
            return timedelta(days=days)
        except OverflowError as error:
            raise Invalid("must be 1 to 366 days", field="expiresInDays") from error


@strawberry.input
class PolicyBindingAttributes:
    """A user or a group, by ID. Give exactly one."""

    id: strawberry.ID | None = None
    """Ignored. Present for compatibility."""
    user_id: strawberry.ID | None = None
    """ID of the user."""
    group_id: strawberry.ID | None = None
    """ID of the group."""


class Bindings(Protocol):
    """An input with read and write bindings; a list that is absent stays as it is."""

    read_bindings: list[PolicyBindingAttributes | None] | None
    write_bindings: list[PolicyBindingAttributes | None] | None


def subjects_by_role(bindings: Bindings) -> dict[str, Subjects]:
    """Returns users and groups by role; a list that is absent stays as it is."""
    lists = {"viewer": bindings.read_bindings, "editor": bindings.write_bindings}
    return {role: _subjects(subjects) for role, subjects in lists.items() if subjects is not None}


def _subjects(bindings: Sequence[PolicyBindingAttributes | None]) -> Subjects:
    check_count(len(bindings), "bindings", _MAX_BINDINGS)
    present = [binding for binding in bindings if binding is not None]
    if any(not binding.user_id and not binding.group_id for binding in present):
        raise Invalid("a binding needs userId or groupId", field="bindings")
    return Subjects(
        users=frozenset(binding.user_id for binding in present if binding.user_id),
        groups=frozenset(binding.group_id for binding in present if binding.group_id),
    )


@draft(SourceRule)
class SourceRuleAttributes(Draft[SourceRule]):
    """Repositories that services of a project may use. `*` in a pattern is any text."""


@draft(DestinationRule)
class DestinationRuleAttributes(Draft[DestinationRule]):
    """Clusters and namespaces that services of a project may use, and the account that applies
    them. `*` in a pattern is any text."""


@draft(ImageRule)
class ImageRuleAttributes(Draft[ImageRule]):
    """Images that pods of a project may use. `*` in the pattern is any text."""


@draft(SignerSet)
class SignerSetAttributes(Draft[SignerSet]):
    """Keys whose signatures are trusted."""


@draft(Fence, publish_defaults=True)
class FenceAttributes(Draft[Fence]):
    """The whole fence of a project. What it does not list is denied."""


@draft(ProjectChange, hide={"subjects"})
class ProjectAttributes(Draft[ProjectChange]):
    """Fields of a project. A field that is null or absent stays as it is."""

    name: str
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer`. Replaces the whole list. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor`. Replaces the whole list. Limit: 500."""

    def field_values(self) -> FieldValues:
        return super().field_values() | {"subjects": subjects_by_role(self)}


@strawberry.input
class RbacAttributes:
    """Users and groups with access to one resource. A list that is absent stays as it is."""

    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer`. Replaces the whole list. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor`. Replaces the whole list. Limit: 500."""


@draft(GroupChange, rename={"global_": "everyone"})
class GroupAttributes(Draft[GroupChange]):
    """Fields of a group."""

    name: str
    global_: bool | None = strawberry.field(name="global", default=None)


@draft(Rule)
class RoleRuleAttributes(Draft[Rule]):
    """Permission for every listed operation on every listed kind of resource."""

    verbs: tuple[Verb, ...]
    kinds: tuple[ResourceKind, ...]


@draft(KubernetesRule, publish_defaults=True)
class KubernetesRuleAttributes(Draft[KubernetesRule]):
    """Kubernetes API requests that match every list. An empty list matches everything, `*` any
    text."""


@draft(KubernetesRights, publish_defaults=True)
class KubernetesRightsAttributes(Draft[KubernetesRights]):
    """Identity and limits of role holders in clusters that they connect to. Limit: 500 names in all
    lists together."""


@draft(RoleChange)
class RoleAttributes(Draft[RoleChange]):
    """Fields of a role. A field that is null or absent stays as it is."""

    name: str


@draft(BindingDraft)
class RoleBindingAttributes(Draft[BindingDraft]):
    """A role for a user or a group in a scope. Give either `user` or `group`."""


@strawberry.input
class ClaimPatternAttributes:
    """A pattern for one claim of a token."""

    name: str
    """Name of the claim."""
    value: str
    """Pattern for its value. `*` matches any text."""


@draft(TrustRuleChange)
class TrustRuleAttributes(Draft[TrustRuleChange]):
    """Fields of a trust rule. A field that is null or absent stays as it is; a given list replaces
    the whole list."""

    claims: list[ClaimPatternAttributes] | None = None
