"""Projects, groups, roles, bindings and requests for access, in the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import strawberry

from controlplane.domain.access import (
    KubernetesRights,
    KubernetesRule,
    Limit,
    Resource,
    ResourceKind,
    Scope,
    Verb,
)
from controlplane.domain.access import Role as RoleRow
from controlplane.domain.access import Rule as RuleRow
from controlplane.domain.bindings import AccessRequest as RequestRow
from controlplane.domain.bindings import AccessRequestState
from controlplane.domain.bindings import Project as ProjectRow
from controlplane.domain.people import Group as GroupRow
from controlplane.domain.people import Membership
from controlplane.domain.people import User as UserRow
from controlplane.domain.signin import TrustRule as TrustRuleRow
from controlplane.graphql.users import UserType
from controlplane.usecases.people import GroupChange
from controlplane.usecases.projects import ProjectChange
from controlplane.usecases.rights import BindingDraft, BindingView, PermissionHolder, RoleChange
from controlplane.usecases.subjects import Subjects
from core.errors import Invalid

strawberry.enum(Verb, name="Verb", description="Operation that a permission allows.")
strawberry.enum(
    ResourceKind, name="ResourceKind", description="Kind of resource that a permission covers."
)
strawberry.enum(AccessRequestState, name="AccessRequestState")

_MAX_BINDINGS = 500


@strawberry.type
class GroupType:
    """A group of users."""

    id: strawberry.ID
    name: str
    """Unique name."""
    description: str | None
    """Free text."""
    global_: bool | None = strawberry.field(name="global")
    """True if every user is a member."""
    issuer: str | None = None
    """Identity provider that manages the members. Null if members are managed here."""

    @classmethod
    def of(cls, row: GroupRow) -> "GroupType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description,
            global_=row.everyone,
            issuer=row.issuer,
        )


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


@strawberry.type
class PolicyBinding:
    """A user or a group with read or write access. Exactly one of the two is set."""

    id: strawberry.ID | None
    """Always null."""
    user: UserType | None
    """The user."""
    group: GroupType | None
    """The group."""

    @classmethod
    def of(cls, view: BindingView) -> "PolicyBinding":
        return cls(
            id=None,
            user=UserType.of(view.user) if view.user else None,
            group=GroupType.of(view.group) if view.group else None,
        )


def bindings_of(bindings: Sequence[BindingView], scope: Scope, role: str) -> list[PolicyBinding]:
    """Returns users and groups with a permanent binding of a role in exactly this scope."""
    return [
        PolicyBinding.of(binding)
        for binding in bindings
        if binding.row.scope == scope and binding.row.expires_at is None and binding.role.id == role
    ]


@strawberry.type
class ProjectType:
    """A set of clusters, repositories and pipelines that share access rights."""

    id: strawberry.ID
    name: str
    """Unique name."""
    default: bool
    """True for the project that holds resources without a project of their own."""
    description: str | None
    """Free text."""
    disable_insights: bool | None
    """Always null. Present for compatibility."""
    inserted_at: datetime
    updated_at: datetime
    read_bindings: list[PolicyBinding]
    """Users and groups with the role `viewer` in the project. Empty for callers who may not read
    them."""
    write_bindings: list[PolicyBinding]
    """Users and groups with the role `editor` in the project. Empty for callers who may not read
    them."""

    @classmethod
    def of(cls, row: ProjectRow, bindings: Sequence[BindingView] = ()) -> "ProjectType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            default=row.default,
            description=row.description,
            disable_insights=None,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            read_bindings=bindings_of(bindings, row.target.scope, "viewer"),
            write_bindings=bindings_of(bindings, row.target.scope, "editor"),
        )


@strawberry.type
class RoleRule:
    """Permission for every listed operation on every listed kind of resource."""

    verbs: list[Verb]
    """Operations. An empty list means all."""
    kinds: list[ResourceKind]
    """Kinds of resources. An empty list means all."""


@strawberry.type
class KubernetesRuleType:
    """Kubernetes API requests that match every list. An empty list matches everything, `*` any
    text."""

    verbs: list[str]
    """Kubernetes verbs, such as `get` or `create`."""
    groups: list[str]
    """API groups, such as `apps`."""
    resources: list[str]
    """Resources, such as `deployments` or `pods/exec`."""
    namespaces: list[str]
    """Namespaces."""
    names: list[str]
    """Object names."""


@strawberry.type
class KubernetesRightsType:
    """Identity and limits of role holders in clusters that they connect to."""

    groups: list[str]
    """Kubernetes groups that the Kubernetes proxy impersonates."""
    rules: list[KubernetesRuleType]
    """Requests that the Kubernetes proxy forwards. An empty list forwards all."""
    impersonate: list[str]
    """Patterns of users and groups that holders may impersonate, such as `group:team-*`."""
    record: bool
    """True if the output of terminal sessions is recorded."""
    record_input: bool
    """True if the input of terminal sessions is recorded, too."""


@strawberry.type
class RoleType:
    """A named set of permissions."""

    id: strawberry.ID
    name: str
    """Unique name."""
    description: str | None
    """Free text."""
    built_in: bool
    """True for roles that are part of Towline and cannot change."""
    rules: list[RoleRule]
    """Permissions in the control plane."""
    kubernetes: KubernetesRightsType
    """Permissions in clusters."""

    @classmethod
    def of(cls, row: RoleRow) -> "RoleType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description,
            built_in=row.built_in,
            rules=[RoleRule(verbs=list(r.verbs), kinds=list(r.kinds)) for r in row.rules],
            kubernetes=_kubernetes(row.kubernetes),
        )


def _kubernetes(rights: KubernetesRights) -> KubernetesRightsType:
    return KubernetesRightsType(
        groups=list(rights.groups),
        rules=[
            KubernetesRuleType(
                verbs=list(rule.verbs),
                groups=list(rule.groups),
                resources=list(rule.resources),
                namespaces=list(rule.namespaces),
                names=list(rule.names),
            )
            for rule in rights.rules
        ],
        impersonate=list(rights.impersonate),
        record=rights.record,
        record_input=rights.record_input,
    )


@strawberry.type
class RoleBinding:
    """A role of a user or a group in a scope."""

    id: strawberry.ID
    role: RoleType
    """The role."""
    scope: str
    """`installation`, or a resource such as `project:ID`, `cluster:ID` or `service:ID`."""
    place: str
    """Display name of the scope."""
    user: UserType | None
    """The user. Null for a group."""
    group: GroupType | None
    """The group. Null for a user."""
    expires_at: datetime | None
    """Expiry time. Null for a permanent binding."""
    given_by: str
    """E-mail address of the user who bound the role."""
    reason: str
    """Reason given for the binding."""
    inserted_at: datetime

    @classmethod
    def of(cls, view: BindingView) -> "RoleBinding":
        row = view.row
        return cls(
            id=strawberry.ID(row.id),
            role=RoleType.of(view.role),
            scope=row.scope,
            place=str(view.target),
            user=UserType.of(view.user) if view.user else None,
            group=GroupType.of(view.group) if view.group else None,
            expires_at=row.expires_at,
            given_by=row.given_by,
            reason=row.reason,
            inserted_at=row.inserted_at,
        )


@strawberry.type
class AccessReason:
    """A role in a scope, and its origin."""

    role: str
    """Name of the role."""
    scope: str
    """`installation`, or a resource such as `project:ID`."""
    why: str
    """Origin of the role: a direct binding, or a group."""
    expires_at: datetime | None
    """Expiry time. Null for a permanent role."""


@strawberry.type
class AccessHolder:
    """A user with a permission, and every reason for it."""

    user: UserType
    """The user."""
    reasons: list[AccessReason]
    """Roles that grant the permission."""

    @classmethod
    def of(cls, holder: PermissionHolder) -> "AccessHolder":
        reasons = [
            AccessReason(role=g.role.name, scope=g.scope, why=g.why, expires_at=g.expires_at)
            for g in holder.grants
        ]
        return cls(user=UserType.of(holder.user), reasons=reasons)


@strawberry.type
class AccessRequestType:
    """A request for temporary access."""

    id: strawberry.ID
    user: UserType
    """The user who asks."""
    role: RoleType
    """The requested role."""
    scope: str
    """Scope of the role, such as `project:ID`."""
    place: str
    """Display name of the scope."""
    minutes: int
    """Requested duration in minutes."""
    reason: str
    """Reason given by the user."""
    state: AccessRequestState
    """State of the request."""
    decided_by: str
    """E-mail address of the user who decided. Empty while the request is pending."""
    inserted_at: datetime
    decided_at: datetime | None
    """Time of the decision."""
    expires_at: datetime | None
    """Time at which the granted role expires."""

    @classmethod
    def of(
        cls, row: RequestRow, user: UserRow, role: RoleRow, target: Resource
    ) -> "AccessRequestType":
        return cls(
            id=strawberry.ID(row.id),
            user=UserType.of(user),
            role=RoleType.of(role),
            scope=row.scope,
            place=str(target),
            minutes=row.minutes,
            reason=row.reason,
            state=row.state,
            decided_by=row.decided_by,
            inserted_at=row.inserted_at,
            decided_at=row.decided_at,
            expires_at=row.expires_at,
        )


@strawberry.type
class ClaimPattern:
    """A pattern for one claim of a token."""

    name: str
    """Name of the claim."""
    value: str
    """Pattern for its value. `*` matches any text."""


@strawberry.type
class TrustRuleType:
    """A rule that exchanges tokens of an external issuer for tokens of a service account."""

    id: strawberry.ID
    user_id: strawberry.ID
    """ID of the service account."""
    issuer: str
    """Issuer of the external tokens (`iss`)."""
    audience: str
    """Required audience (`aud`)."""
    subject: str
    """Pattern for the subject (`sub`). `*` matches any text."""
    claims: list[ClaimPattern]
    """Patterns for further claims. All must match."""
    minutes: int
    """Lifetime of exchanged tokens in minutes."""

    @classmethod
    def of(cls, row: TrustRuleRow) -> "TrustRuleType":
        return cls(
            id=strawberry.ID(row.id),
            user_id=strawberry.ID(row.user_id),
            issuer=row.issuer,
            audience=row.audience,
            subject=row.subject,
            claims=[ClaimPattern(name=name, value=value) for name, value in row.claims.items()],
            minutes=row.minutes,
        )


@strawberry.input
class PolicyBindingAttributes:
    """A user or a group, by ID. Give exactly one."""

    id: strawberry.ID | None = None
    """Ignored. Present for compatibility."""
    user_id: strawberry.ID | None = None
    """ID of the user."""
    group_id: strawberry.ID | None = None
    """ID of the group."""


@strawberry.input
class ProjectAttributes:
    """Fields of a project. A field that is null or absent stays as it is."""

    name: str
    """Unique name."""
    description: str | None = None
    """Free text."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer`. Replaces the whole list. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor`. Replaces the whole list. Limit: 500."""

    def change(self) -> ProjectChange:
        return ProjectChange(self.name, self.description, subjects_by_role(self))


@strawberry.input
class RbacAttributes:
    """Users and groups with access to one resource. A list that is absent stays as it is."""

    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer`. Replaces the whole list. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor`. Replaces the whole list. Limit: 500."""


class Bindings(Protocol):
    """An input with read and write bindings; a list that is absent stays as it is."""

    read_bindings: list[PolicyBindingAttributes | None] | None
    write_bindings: list[PolicyBindingAttributes | None] | None


def subjects_by_role(given: Bindings) -> dict[str, Subjects]:
    """Returns the given users and groups by role; a list that is absent stays as it is."""
    lists = {"viewer": given.read_bindings, "editor": given.write_bindings}
    return {role: _subjects(some) for role, some in lists.items() if some is not None}


def _subjects(given: Sequence[PolicyBindingAttributes | None]) -> Subjects:
    if len(given) > _MAX_BINDINGS:
        raise Invalid(f"{len(given)} bindings, {_MAX_BINDINGS} at most", field="bindings")
    named = [binding for binding in given if binding is not None]
    return Subjects(
        users=frozenset(binding.user_id for binding in named if binding.user_id),
        groups=frozenset(binding.group_id for binding in named if binding.group_id),
    )


@strawberry.input
class GroupAttributes:
    """Fields of a group."""

    name: str
    """Unique name."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    global_: bool | None = strawberry.field(name="global", default=None)
    """True makes every user a member. Default: false."""
    issuer: str | None = None
    """Identity provider that manages the members. Null: members are managed here."""

    def change(self) -> GroupChange:
        return GroupChange(self.name, self.description, self.global_, self.issuer)


@strawberry.input
class RoleRuleAttributes:
    """Permission for every listed operation on every listed kind of resource."""

    verbs: list[Verb]
    """Operations. An empty list means all."""
    kinds: list[ResourceKind]
    """Kinds of resources. An empty list means all."""


@strawberry.input
class KubernetesRuleAttributes:
    """Kubernetes API requests that match every list. An empty list matches everything, `*` any
    text."""

    verbs: list[str] = strawberry.field(default_factory=list)
    """Kubernetes verbs, such as `get` or `create`."""
    groups: list[str] = strawberry.field(default_factory=list)
    """API groups, such as `apps`."""
    resources: list[str] = strawberry.field(default_factory=list)
    """Resources, such as `deployments` or `pods/exec`."""
    namespaces: list[str] = strawberry.field(default_factory=list)
    """Namespaces."""
    names: list[str] = strawberry.field(default_factory=list)
    """Object names."""

    def rule(self) -> KubernetesRule:
        return KubernetesRule(
            tuple(self.verbs),
            tuple(self.groups),
            tuple(self.resources),
            tuple(self.namespaces),
            tuple(self.names),
        )


@strawberry.input
class KubernetesRightsAttributes:
    """Identity and limits of role holders in clusters that they connect to. Limit: 500 names in all
    lists together."""

    groups: list[str] = strawberry.field(default_factory=list)
    """Kubernetes groups that the Kubernetes proxy impersonates. `system:` groups are rejected."""
    rules: list[KubernetesRuleAttributes] = strawberry.field(default_factory=list)
    """Requests that the Kubernetes proxy forwards. An empty list forwards all."""
    impersonate: list[str] = strawberry.field(default_factory=list)
    """Patterns of users and groups that holders may impersonate, such as `user:*@example.org` or
    `group:team-*`."""
    record: bool = False
    """Record the output of terminal sessions."""
    record_input: bool = False
    """Record the input of terminal sessions, too. Requires `record`."""

    def rights(self) -> KubernetesRights:
        return KubernetesRights(
            tuple(self.groups),
            tuple(rule.rule() for rule in self.rules),
            tuple(self.impersonate),
            self.record,
            self.record_input,
        )


@strawberry.input
class RoleAttributes:
    """Fields of a role. A field that is null or absent stays as it is."""

    name: str
    """Unique name."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    rules: list[RoleRuleAttributes] | None = None
    """Permissions in the control plane. Replaces the whole list. Limit: 50."""
    kubernetes: KubernetesRightsAttributes | None = None
    """Permissions in clusters."""

    def change(self) -> RoleChange:
        rules = self.rules
        return RoleChange(
            self.name,
            self.description,
            None if rules is None else tuple(_rule(rule) for rule in rules),
            self.kubernetes.rights() if self.kubernetes else None,
        )


def _rule(given: RoleRuleAttributes) -> RuleRow:
    return RuleRow(tuple(dict.fromkeys(given.verbs)), tuple(dict.fromkeys(given.kinds)))


@strawberry.input
class RoleBindingAttributes:
    """A role for a user or a group in a scope. Give either `user` or `group`."""

    role: str
    """ID or name of the role."""
    scope: str
    """`installation`, or a resource such as `project:ID`, `cluster:ID` or `service:ID`."""
    user: str | None = None
    """ID or e-mail address of the user."""
    group: str | None = None
    """ID or name of the group."""
    expires_at: datetime | None = None
    """Expiry time. Default: the binding is permanent."""
    reason: str | None = None
    """Reason for the binding. Limit: 1,000 characters."""

    def draft(self) -> BindingDraft:
        return BindingDraft(
            self.role,
            Scope(self.scope),
            self.user or None,
            self.group or None,
            self.expires_at,
            self.reason or "",
        )


@strawberry.input
class TokenScopeAttributes:
    """Limits of a token to operations, kinds of resources and scopes. An empty list means all."""

    verbs: list[Verb] = strawberry.field(default_factory=list)
    """Operations."""
    kinds: list[ResourceKind] = strawberry.field(default_factory=list)
    """Kinds of resources."""
    scopes: list[str] = strawberry.field(default_factory=list)
    """Scopes, such as `project:ID`. Limit: 500 scopes of 64 characters."""

    def limit(self) -> Limit:
        if len(self.scopes) > _MAX_BINDINGS or any(len(scope) > 64 for scope in self.scopes):
            raise Invalid(f"at most {_MAX_BINDINGS} scopes of 64 characters", field="scopes")
        return Limit(
            tuple(self.verbs), tuple(self.kinds), tuple(Scope(scope) for scope in self.scopes)
        )


@strawberry.input
class ClaimPatternAttributes:
    """A pattern for one claim of a token."""

    name: str
    """Name of the claim."""
    value: str
    """Pattern for its value. `*` matches any text."""


@strawberry.input
class TrustRuleAttributes:
    """A rule that exchanges tokens of an external issuer for tokens of a service account."""

    issuer: str
    """Issuer of the external tokens (`iss`), an https URL."""
    audience: str
    """Required audience (`aud`)."""
    subject: str
    """Pattern for the subject (`sub`). `*` matches any text."""
    claims: list[ClaimPatternAttributes] = strawberry.field(default_factory=list)
    """Patterns for further claims. All must match."""
    minutes: int = 60
    """Lifetime of exchanged tokens in minutes. Default: 60. Limit: 1,440."""
    keys: str | None = None
    """JSON Web Key Set of the issuer. Needed if the control plane cannot reach the issuer over
    https. Limit: 64 KiB."""
