"""Projects, groups, roles, bindings and requests for access, as the API shows and takes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import strawberry

from controlplane.domain.access import Kind as ThingKind
from controlplane.domain.access import (
    KubernetesRights,
    KubernetesRule,
    Limit,
    Scope,
    Target,
    Verb,
)
from controlplane.domain.access import Role as RoleRow
from controlplane.domain.access import Rule as RuleRow
from controlplane.domain.bindings import AccessRequest as RequestRow
from controlplane.domain.bindings import Project as ProjectRow
from controlplane.domain.bindings import RequestState
from controlplane.domain.people import Group as GroupRow
from controlplane.domain.people import Membership
from controlplane.domain.people import User as UserRow
from controlplane.domain.signin import TrustRule as TrustRuleRow
from controlplane.graphql.users import User
from controlplane.usecases.people import GroupChange
from controlplane.usecases.projects import ProjectChange
from controlplane.usecases.rights import BindingDraft, BindingView, Holder, RoleChange
from controlplane.usecases.subjects import Subjects
from fleet.errors import Invalid

strawberry.enum(Verb, name="Verb")
strawberry.enum(ThingKind, name="ThingKind")
strawberry.enum(RequestState, name="AccessRequestState")

_MOST_WORDS = 500


@strawberry.type
class Group:
    id: strawberry.ID
    name: str
    description: str | None
    global_: bool | None = strawberry.field(name="global")
    issuer: str | None = None

    @classmethod
    def of(cls, row: GroupRow) -> "Group":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description,
            global_=row.everyone,
            issuer=row.issuer,
        )


@strawberry.type
class GroupMember:
    id: strawberry.ID
    user: User
    group: Group

    @classmethod
    def of(cls, row: Membership, group: GroupRow, user: UserRow) -> "GroupMember":
        return cls(id=strawberry.ID(row.id), user=User.of(user), group=Group.of(group))


@strawberry.type
class PolicyBinding:
    """A user or a group that may read, or write; `id` is not used."""

    id: strawberry.ID | None
    user: User | None
    group: Group | None

    @classmethod
    def of(cls, view: BindingView) -> "PolicyBinding":
        return cls(
            id=None,
            user=User.of(view.user) if view.user else None,
            group=Group.of(view.group) if view.group else None,
        )


def bound(bindings: Sequence[BindingView], scope: Scope, role: str) -> list[PolicyBinding]:
    """Who has a role in exactly this scope, for good."""
    return [
        PolicyBinding.of(one)
        for one in bindings
        if one.row.scope == scope and one.row.expires_at is None and one.role.id == role
    ]


@strawberry.type
class Project:
    """What belongs together. `readBindings` have role viewer in it, `writeBindings` role editor;
    both are empty for who may not read them."""

    id: strawberry.ID
    name: str
    default: bool
    description: str | None
    disable_insights: bool | None
    inserted_at: datetime
    updated_at: datetime
    read_bindings: list[PolicyBinding]
    write_bindings: list[PolicyBinding]

    @classmethod
    def of(cls, row: ProjectRow, bindings: Sequence[BindingView] = ()) -> "Project":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            default=row.default,
            description=row.description,
            disable_insights=None,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            read_bindings=bound(bindings, row.target.scope, "viewer"),
            write_bindings=bound(bindings, row.target.scope, "editor"),
        )


@strawberry.type
class RoleRule:
    """Every verb on every kind; an empty list means all."""

    verbs: list[Verb]
    kinds: list[ThingKind]


@strawberry.type
class KubernetesRuleType:
    verbs: list[str]
    groups: list[str]
    resources: list[str]
    namespaces: list[str]
    names: list[str]


@strawberry.type
class KubernetesRightsType:
    """As whom holders of the role appear in clusters that they may connect to."""

    groups: list[str]
    rules: list[KubernetesRuleType]
    impersonate: list[str]
    record: bool
    record_input: bool


@strawberry.type
class Role:
    id: strawberry.ID
    name: str
    description: str | None
    built_in: bool
    rules: list[RoleRule]
    kubernetes: KubernetesRightsType

    @classmethod
    def of(cls, row: RoleRow) -> "Role":
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
                verbs=list(one.verbs),
                groups=list(one.groups),
                resources=list(one.resources),
                namespaces=list(one.namespaces),
                names=list(one.names),
            )
            for one in rights.rules
        ],
        impersonate=list(rights.impersonate),
        record=rights.record,
        record_input=rights.record_input,
    )


@strawberry.type
class RoleBinding:
    """A role that a user or a group has in `scope`; `place` names it for people."""

    id: strawberry.ID
    role: Role
    scope: str
    place: str
    user: User | None
    group: Group | None
    expires_at: datetime | None
    given_by: str
    reason: str
    inserted_at: datetime

    @classmethod
    def of(cls, view: BindingView) -> "RoleBinding":
        row = view.row
        return cls(
            id=strawberry.ID(row.id),
            role=Role.of(view.role),
            scope=row.scope,
            place=str(view.target),
            user=User.of(view.user) if view.user else None,
            group=Group.of(view.group) if view.group else None,
            expires_at=row.expires_at,
            given_by=row.given_by,
            reason=row.reason,
            inserted_at=row.inserted_at,
        )


@strawberry.type
class AccessReason:
    """A role in a scope, and where it comes from."""

    role: str
    scope: str
    why: str
    expires_at: datetime | None


@strawberry.type
class AccessHolder:
    """Somebody who may do something, with every reason for it."""

    user: User
    reasons: list[AccessReason]

    @classmethod
    def of(cls, holder: Holder) -> "AccessHolder":
        reasons = [
            AccessReason(role=g.role.name, scope=g.scope, why=g.why, expires_at=g.expires_at)
            for g in holder.grants
        ]
        return cls(user=User.of(holder.user), reasons=reasons)


@strawberry.type
class AccessRequest:
    """A role asked for, for some minutes."""

    id: strawberry.ID
    user: User
    role: Role
    scope: str
    place: str
    minutes: int
    reason: str
    state: RequestState
    decided_by: str
    inserted_at: datetime
    decided_at: datetime | None
    expires_at: datetime | None

    @classmethod
    def of(cls, row: RequestRow, user: UserRow, role: RoleRow, target: Target) -> "AccessRequest":
        return cls(
            id=strawberry.ID(row.id),
            user=User.of(user),
            role=Role.of(role),
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
    name: str
    value: str


@strawberry.type
class TrustRule:
    """Whose tokens are exchanged for one of a service account."""

    id: strawberry.ID
    user_id: strawberry.ID
    issuer: str
    audience: str
    subject: str
    claims: list[ClaimPattern]
    minutes: int

    @classmethod
    def of(cls, row: TrustRuleRow) -> "TrustRule":
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
    """A user or a group, by id."""

    id: strawberry.ID | None = None
    user_id: strawberry.ID | None = None
    group_id: strawberry.ID | None = None


@strawberry.input
class ProjectAttributes:
    name: str
    description: str | None = None
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None

    def change(self) -> ProjectChange:
        return ProjectChange(self.name, self.description, wanted(self))


@strawberry.input
class RbacAttributes:
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    write_bindings: list[PolicyBindingAttributes | None] | None = None


class Bindings(Protocol):
    """An input with lists of who may read and who may write; a list left out stays."""

    read_bindings: list[PolicyBindingAttributes | None] | None
    write_bindings: list[PolicyBindingAttributes | None] | None


def wanted(given: Bindings) -> dict[str, Subjects]:
    """Whom each list names, by the role that it stands for; a list left out stays."""
    lists = {"viewer": given.read_bindings, "editor": given.write_bindings}
    return {role: _subjects(some) for role, some in lists.items() if some is not None}


def _subjects(given: Sequence[PolicyBindingAttributes | None]) -> Subjects:
    if len(given) > _MOST_WORDS:
        raise Invalid(f"{_MOST_WORDS} at most", field="bindings")
    named = [one for one in given if one is not None]
    return Subjects(
        users=frozenset(one.user_id for one in named if one.user_id),
        groups=frozenset(one.group_id for one in named if one.group_id),
    )


@strawberry.input
class GroupAttributes:
    """`global`: everybody is in it. `issuer`: the identity provider that says who is in it."""

    name: str
    description: str | None = None
    global_: bool | None = strawberry.field(name="global", default=None)
    issuer: str | None = None

    def change(self) -> GroupChange:
        return GroupChange(self.name, self.description, self.global_, self.issuer)


@strawberry.input
class RoleRuleAttributes:
    """Every verb on every kind; an empty list means all."""

    verbs: list[Verb]
    kinds: list[ThingKind]


@strawberry.input
class KubernetesRuleAttributes:
    """Requests that fit every list; an empty one fits all. `*` stands for any text."""

    verbs: list[str] = strawberry.field(default_factory=list)
    groups: list[str] = strawberry.field(default_factory=list)
    resources: list[str] = strawberry.field(default_factory=list)
    namespaces: list[str] = strawberry.field(default_factory=list)
    names: list[str] = strawberry.field(default_factory=list)

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
    """`impersonate` takes patterns like `user:*@example.org` and `group:team-*`.
    `record` keeps what sessions show, `recordInput` what is typed, too."""

    groups: list[str] = strawberry.field(default_factory=list)
    rules: list[KubernetesRuleAttributes] = strawberry.field(default_factory=list)
    impersonate: list[str] = strawberry.field(default_factory=list)
    record: bool = False
    record_input: bool = False

    def rights(self) -> KubernetesRights:
        return KubernetesRights(
            tuple(self.groups),
            tuple(one.rule() for one in self.rules),
            tuple(self.impersonate),
            self.record,
            self.record_input,
        )


@strawberry.input
class RoleAttributes:
    name: str
    description: str | None = None
    rules: list[RoleRuleAttributes] | None = None
    kubernetes: KubernetesRightsAttributes | None = None

    def change(self) -> RoleChange:
        rules = self.rules
        return RoleChange(
            self.name,
            self.description,
            None if rules is None else tuple(_rule(one) for one in rules),
            self.kubernetes.rights() if self.kubernetes else None,
        )


def _rule(given: RoleRuleAttributes) -> RuleRow:
    return RuleRow(tuple(dict.fromkeys(given.verbs)), tuple(dict.fromkeys(given.kinds)))


@strawberry.input
class RoleBindingAttributes:
    """`role` by id or name; `user` by id or address, or `group` by id or name. `scope` is
    `installation`, or like `project:ID`, `cluster:ID`, `service:ID`."""

    role: str
    scope: str
    user: str | None = None
    group: str | None = None
    expires_at: datetime | None = None
    reason: str | None = None

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
    """What a token lets through: these verbs, on these kinds, in these scopes; empty means all."""

    verbs: list[Verb] = strawberry.field(default_factory=list)
    kinds: list[ThingKind] = strawberry.field(default_factory=list)
    scopes: list[str] = strawberry.field(default_factory=list)

    def limit(self) -> Limit:
        if len(self.scopes) > _MOST_WORDS or any(len(one) > 64 for one in self.scopes):
            raise Invalid(f"{_MOST_WORDS} scopes of 64 characters at most", field="scopes")
        return Limit(tuple(self.verbs), tuple(self.kinds), tuple(Scope(one) for one in self.scopes))


@strawberry.input
class ClaimPatternAttributes:
    name: str
    value: str


@strawberry.input
class TrustRuleAttributes:
    """Tokens of `issuer` for `audience` whose `subject` and `claims` fit the patterns.

    `keys`: the issuer's JSON Web Key Set, where it cannot be reached over https.
    """

    issuer: str
    audience: str
    subject: str
    claims: list[ClaimPatternAttributes] = strawberry.field(default_factory=list)
    minutes: int = 60
    keys: str | None = None
