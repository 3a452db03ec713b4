"""Users, tokens, projects, groups, roles, bindings and requests for access, in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.enums import BuiltInRole
from controlplane.access.model.bindings import AccessRequest as RequestRow
from controlplane.access.model.bindings import Binding as BindingRow
from controlplane.access.model.bindings import Project as ProjectRow
from controlplane.access.model.trust_rules import TrustRule as TrustRuleRow
from controlplane.access.model.users import Group as GroupRow
from controlplane.access.model.users import Membership
from controlplane.access.model.users import Token as TokenRow
from controlplane.access.model.users import User as UserRow
from controlplane.access.operations.access_requests import AccessRequestView
from controlplane.access.operations.permissions import PermissionHolder, Permissions
from controlplane.access.operations.role_bindings import BindingView
from controlplane.authorization import (
    DestinationRule,
    Fence,
    Grant,
    ImageRule,
    KubernetesRights,
    KubernetesRule,
    Scope,
    SourceRule,
)
from controlplane.authorization import Role as RoleRow
from controlplane.authorization import Rule as RuleRow
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from core.spec.source_signatures import SignerSet


@output(UserRow, only={"id", "email", "name", "kind", "disabled_at"})
class UserType(Output[UserRow]):
    """A person or a service account."""

    role: BuiltInRole | None = None
    """Built-in role bound at the installation. Null in most nested selections; see `roleBindings`
    for all other roles."""


@output(TokenRow, only={"id", "name", "inserted_at", "expires_at", "last_used_at", "revoked_at"})
class AccessToken(Output[TokenRow]):
    """An API token of a user or a service account."""

    token: str | None = None
    """Secret of the token. Returned only by the mutation that creates it."""


@output(GroupRow, rename={"global_": "everyone"}, hide={"inserted_at", "updated_at", "external_id"})
class GroupType(Output[GroupRow]):
    """A group of users."""

    global_: bool | None = strawberry.field(name="global")


@strawberry.type
class GroupMember:
    """Membership of a user in a group."""

    id: strawberry.ID
    user: UserType
    """The member."""
    group: GroupType
    """The group."""

    @classmethod
    def of(cls, row: Membership, group: GroupRow, user: UserRow) -> "GroupMember":
        return cls(id=strawberry.ID(row.id), user=UserType.of(user), group=GroupType.of(group))


@output(BindingView, only={"user", "group"})
class PolicyBinding(Output[BindingView]):
    """A user or a group with read or write access. Exactly one of the two is set."""

    id: strawberry.ID | None = None  # ty: ignore[incompatible-attribute-override]
    """Always null."""


def bindings_of(bindings: Sequence[BindingView], scope: Scope, role: str) -> list[PolicyBinding]:
    """Returns users and groups with a permanent binding of a role in exactly this scope."""
    return [
        PolicyBinding.of(binding)
        for binding in bindings
        if binding.row.scope == scope and binding.row.expires_at is None and binding.role.id == role
    ]


@output(SourceRule)
class SourceRuleType(Output[SourceRule]):
    """Repositories that services of a project may use. `*` in a pattern is any text."""


@output(DestinationRule)
class DestinationRuleType(Output[DestinationRule]):
    """Clusters and namespaces that services of a project may use, and the account that applies
    them. `*` in a pattern is any text."""


@output(ImageRule)
class ImageRuleType(Output[ImageRule]):
    """Images that pods of a project may use. `*` in the pattern is any text."""


@output(SignerSet)
class SignerSetType(Output[SignerSet]):
    """Keys whose signatures are trusted."""


@output(Fence)
class FenceType(Output[Fence]):
    """The fence of a project. What it does not list is denied."""


@output(ProjectRow)
class ProjectType(Output[ProjectRow]):
    """A set of clusters, repositories and pipelines that share access rights."""

    default: bool = computed(lambda project: project.default)
    """True for the project that holds resources without a project of their own."""
    disable_insights: bool | None = None
    """Always null. Present for compatibility."""
    read_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `viewer` in the project. Empty for callers without
    the role `editor` there."""
    write_bindings: list[PolicyBinding] = strawberry.field(default_factory=list)
    """Users and groups with the role `editor` in the project. Empty for callers without
    the role `editor` there."""

    @classmethod
    def with_bindings(cls, row: ProjectRow, bindings: Sequence[BindingView]) -> "ProjectType":
        scope = row.target.scope
        return cls.of(
            row,
            read_bindings=bindings_of(bindings, scope, "viewer"),
            write_bindings=bindings_of(bindings, scope, "editor"),
        )


@output(RuleRow)
class RoleRule(Output[RuleRow]):
    """Permission for every listed operation on every listed kind of resource."""


@output(KubernetesRule)
class KubernetesRuleType(Output[KubernetesRule]):
    """Kubernetes API requests that match every list. An empty list matches everything, `*` any
    text."""


@output(KubernetesRights)
class KubernetesRightsType(Output[KubernetesRights]):
    """Identity and limits of role holders in clusters that they connect to."""


@output(RoleRow, hide={"inserted_at", "updated_at"})
class RoleType(Output[RoleRow]):
    """A named set of permissions."""

    built_in: bool = computed(lambda role: role.built_in)
    """True for roles that are part of Towline and cannot change."""


@output(BindingRow, hide={"role_id", "subject_kind", "subject_id", "ended_at"})
class RoleBinding(Output[BindingRow]):
    """A role of a user or a group in a scope."""

    role: RoleType
    """The role."""
    place: str
    """Display name of the scope."""
    user: UserType | None
    """The user. Null for a group."""
    group: GroupType | None
    """The group. Null for a user."""
    expired: bool
    """True after the expiry: the binding grants nothing."""

    @classmethod
    def of_view(cls, view: BindingView) -> "RoleBinding":
        return cls.of(
            view.row,
            role=RoleType.of(view.role),
            place=str(view.target),
            user=UserType.of_optional(view.user),
            group=GroupType.of_optional(view.group),
            expired=view.expired,
        )


@output(Grant, hide={"binding_id"})
class AccessReason(Output[Grant]):
    """A role in a scope, and its origin."""

    role: str = computed(lambda grant: grant.role.name)
    """Name of the role."""
    scope: str = computed(lambda grant: grant.scope)
    """`installation`, or a resource such as `project:ID`."""

    @strawberry.field
    async def place(self, info: Info) -> str:
        """Display name of the scope. The scope itself, if the caller may not read the resource."""
        return await info.context[Permissions].scope_display_name(
            info.context.actor, Scope(self.scope)
        )


@output(PermissionHolder, rename={"reasons": "grants"})
class AccessHolder(Output[PermissionHolder]):
    """A user with a permission, and every reason for it."""


@output(RequestRow, hide={"user_id", "role_id", "binding_id"})
class AccessRequestType(Output[RequestRow]):
    """A request for temporary access."""

    user: UserType
    """The user who asks."""
    role: RoleType
    """The requested role."""
    place: str
    """Display name of the scope."""

    @classmethod
    def of_view(cls, view: AccessRequestView) -> "AccessRequestType":
        user, role = UserType.of(view.user), RoleType.of(view.role)
        return cls.of(view.row, user=user, role=role, place=str(view.target))


@strawberry.type
class ClaimPattern:
    """A pattern for one claim of a token."""

    name: str
    """Name of the claim."""
    value: str
    """Pattern for its value. `*` matches any text."""


def _claim_patterns(rule: TrustRuleRow) -> list[ClaimPattern]:
    return [ClaimPattern(name=name, value=value) for name, value in rule.spec.claims.items()]


@output(TrustRuleRow, hide={"inserted_at", "updated_at", "keys"})
class TrustRuleType(Output[TrustRuleRow]):
    """A rule that exchanges tokens of an external issuer for tokens of a service account."""

    claims: list[ClaimPattern] = computed(_claim_patterns)
