"""Kinds of manifests: projects, roles and their bindings, users, and trusted issuers."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol, TypeVar

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import Group, User, UserKind
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.groups import GroupChange, Groups
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.role_bindings import BindingDraft, BindingView, RoleBindings
from controlplane.access.operations.roles import RoleChange
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRuleChange
from controlplane.access.operations.users import ACCOUNT_DOMAIN, Users
from controlplane.access.ports import (
    GroupStore,
    MembershipStore,
    ProjectStore,
    RoleBindingStore,
    RoleStore,
    TrustRuleStore,
    UserStore,
)
from controlplane.authorization import (
    BUILT_IN,
    INSTALLATION,
    Actor,
    Resource,
    ResourceKind,
    Role,
    Scope,
    Verb,
)
from controlplane.authorization.resources import scope_of
from controlplane.platform.kinds import KindWithOperations, ManifestKind, OperatedKind, Placement
from controlplane.platform.names import LABEL_NAME, handle_from
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction
from core.errors import Invalid

T = TypeVar("T", bound="Targeted")

BINDING_REFERENCES = {"Subjects.users": "User", "Subjects.groups": "Group"}
"""References in the field `bindings` of a kind."""


class Targeted(Protocol):
    """A resource that roles can be bound on."""

    @property
    def id(self) -> str: ...

    @property
    def target(self) -> Resource: ...


async def _load_subjects(
    tx: Transaction, rows: Sequence[Targeted]
) -> dict[str, Mapping[str, Subjects]]:
    """Returns the permanent subjects of roles on resources, by ID of the resource.

    Bindings with a manifest of their own are not among them.
    """
    scopes = {row.target.scope: row.id for row in rows}
    bindings_by_role: dict[str, dict[str, list[Binding]]] = {}
    for binding in await tx[RoleBindingStore].in_scopes(list(scopes)):
        if not (binding.expires_at or binding.name or binding.cluster_tags):
            roles = bindings_by_role.setdefault(scopes[binding.scope], {})
            roles.setdefault(binding.role_id, []).append(binding)
    ids = {role for roles in bindings_by_role.values() for role in roles}
    custom = {role.id: role.name for role in await tx[RoleStore].by_ids(ids)}
    return {
        id: {
            custom.get(role, role): _subjects_of_bindings(bindings)
            for role, bindings in roles.items()
        }
        for id, roles in bindings_by_role.items()
    }


def _subjects_of_bindings(bindings: Sequence[Binding]) -> Subjects:
    ids = {
        kind: frozenset(b.subject_id for b in bindings if b.subject_kind is kind)
        for kind in SubjectKind
    }
    return Subjects(ids[SubjectKind.USER], ids[SubjectKind.GROUP])


class TargetedKind(ManifestKind[T]):
    """A kind on whose resources roles can be bound: the field `subjects` of its change."""

    references: ClassVar[Mapping[str, str]] = BINDING_REFERENCES

    def hidden_fields(self, actor: Actor, row: T) -> Collection[str]:
        """Returns the field of role bindings unless the actor may read them."""
        is_reader = actor.may(Verb.READ, row.target.below(ResourceKind.BINDING))
        return () if is_reader else ("subjects",)

    async def values(self, tx: Transaction, rows: Sequence[T]) -> Sequence[Columns]:
        subjects = await _load_subjects(tx, rows)
        return [column_values(row) | {"subjects": subjects.get(row.id, {})} for row in rows]


class ProjectKind(OperatedKind[Project], TargetedKind[Project]):
    """Projects, with their fences and role bindings."""

    name = "Project"
    change = ProjectChange
    clearable = ("description",)
    port = ProjectStore
    model = Project
    has_project = False
    hidden = ("name", "confirm_fence")
    rename = {"subjects": "bindings"}


class RoleKind(OperatedKind[Role]):
    """Custom roles. References find built-in roles as well."""

    name = "Role"
    change = RoleChange
    clearable = ("description",)
    port = RoleStore
    model = Role
    has_project = False
    hidden = ("name",)

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[Role]:
        return [*_built_in(names), *await tx[RoleStore].by_names(names)]

    async def by_ids(self, tx: Transaction, ids: Collection[str]) -> Sequence[Role]:
        return [*_built_in(ids), *await tx[RoleStore].by_ids(ids)]

    def is_declared(self, row: Role) -> bool:
        return not row.built_in

    def target_of(self, row: Role) -> Resource:
        return Resource.whole(ResourceKind.ROLE, row.id, row.name)

    def may_read(self, actor: Actor, row: Role) -> bool:
        """Every member may read all roles, as in the API."""
        return True


def _built_in(names: Collection[str]) -> list[Role]:
    return [role for name, role in BUILT_IN.items() if name in names]


@dataclass(frozen=True, slots=True)
class BindingSubject:
    """The holder of a role: either a user or a group."""

    user_id: str | None = None
    """ID of the user or service account."""
    group_id: str | None = None
    """ID of the group."""


@dataclass(frozen=True, slots=True)
class BindingScope:
    """The place of a role: at most one resource, and everything below it."""

    project_id: str | None = None
    """ID of the project."""
    cluster_id: str | None = None
    """ID of the cluster."""
    service_id: str | None = None
    """ID of the service."""
    pipeline_id: str | None = None
    """ID of the pipeline."""
    repository_id: str | None = None
    """ID of the repository."""

    @classmethod
    def of(cls, scope: Scope) -> "BindingScope":
        """Returns the place of a scope; that of the installation is empty."""
        kind, _, id = scope.partition(":")
        return cls(**{f"{kind}_id": id}) if id else cls()

    def scope(self) -> Scope:
        """Returns the scope. Raises Invalid if it names several resources."""
        scopes = [
            scope_of(kind, id) for kind in _SCOPE_KINDS if (id := getattr(self, f"{kind.value}_id"))
        ]
        if len(scopes) > 1:
            raise Invalid("names several resources: a binding needs one", field="scope")
        return scopes[0] if scopes else INSTALLATION


_SCOPE_KINDS = (
    ResourceKind.PROJECT,
    ResourceKind.CLUSTER,
    ResourceKind.SERVICE,
    ResourceKind.PIPELINE,
    ResourceKind.REPOSITORY,
)


@dataclass(frozen=True, slots=True)
class RoleBindingSpec:
    """A role of a user or a group in a scope."""

    role_id: str
    """ID of the role, also of a built-in one."""
    subject: BindingSubject
    """Holder of the role."""
    scope: BindingScope = BindingScope()
    """Place of the role. Default: the installation."""
    expires_at: datetime | None = None
    """Expiry time (RFC 3339), such as `2027-01-31T09:30:00Z`. Afterwards the binding grants
    nothing, and stays as an expired one. Default: the binding is permanent."""
    reason: str = ""
    """Reason for the binding. Limit: 1,000 characters."""
    cluster_tags: str = ""
    """Selector of cluster tags, such as `env=dev,team in (a,b)`, for a role that holds only in
    those clusters of the installation or of a project. Default: the role holds in the whole
    scope."""

    def draft(self, name: str) -> BindingDraft:
        """Returns the binding as its operation takes it."""
        subject = self.subject
        return BindingDraft(
            self.role_id,
            self.scope.scope(),
            subject.user_id,
            subject.group_id,
            self.expires_at,
            self.reason,
            name,
            self.cluster_tags,
        )


_KINDS_WITH_BINDINGS = ("project", "cluster", "service")
"""Kinds of scopes whose resources have their permanent bindings in the field `bindings`."""


def _has_own_manifest(row: Binding) -> bool:
    """Returns whether a binding without a name is in no `bindings`, and lasts."""
    is_in_bindings = row.scope.partition(":")[0] in _KINDS_WITH_BINDINGS and not row.cluster_tags
    return row.expires_at is None and not is_in_bindings


def _name_of_binding(view: BindingView) -> str:
    """Returns the name of a binding; without one, a name that its parts always have."""
    if view.row.name:
        return view.row.name
    scope = f"{view.target.kind}:{view.target.name}"
    if view.row.cluster_tags:
        scope += f"?{view.row.cluster_tags}"
    parts = (view.role.name, view.row.subject_kind, view.subject, scope)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    return f"{handle_from(f'{view.role.name}-{view.subject}')[:54].strip('-')}-{digest}"


class RoleBindingKind(KindWithOperations[BindingView, RoleBindings]):
    """Role bindings. Those in `bindings` of projects, clusters and services, and temporary ones
    without a name, are none."""

    name = "RoleBinding"
    name_form = LABEL_NAME
    change = RoleBindingSpec
    port = RoleBindingStore
    has_project = False
    references = {
        "RoleBindingSpec.role_id": "Role",
        "BindingSubject.user_id": "User",
        "BindingSubject.group_id": "Group",
    }
    takes_all = True

    async def all(self, tx: Transaction) -> Sequence[BindingView]:
        return await self._load_views(tx, await tx[RoleBindingStore].all())

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[BindingView]:
        views = list(await self._load_views(tx, await tx[RoleBindingStore].by_names(names)))
        missing = set(names).difference(map(self.name_of, views))
        if missing:
            unnamed = await self._load_views(tx, await tx[RoleBindingStore].unnamed())
            views += [view for view in unnamed if self.name_of(view) in missing]
        return views

    async def by_ids(self, tx: Transaction, ids: Collection[str]) -> Sequence[BindingView]:
        return await self._load_views(tx, await tx[RoleBindingStore].by_ids(ids))

    async def _load_views(self, tx: Transaction, rows: Sequence[Binding]) -> Sequence[BindingView]:
        own = [row for row in rows if row.name is not None or _has_own_manifest(row)]
        views = await self._operations.views(tx, own)
        taken = {view.row.name for view in views}
        return [view for view in views if view.row.name or self.name_of(view) not in taken]

    def name_of(self, row: BindingView) -> str:
        return _name_of_binding(row)

    def target_of(self, row: BindingView) -> Resource:
        return row.target.below(ResourceKind.BINDING)

    async def values(self, tx: Transaction, rows: Sequence[BindingView]) -> Sequence[Columns]:
        return [
            column_values(view.row)
            | {
                "subject": BindingSubject(
                    view.user.id if view.user else None, view.group.id if view.group else None
                ),
                "scope": BindingScope.of(view.row.scope),
            }
            for view in rows
        ]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        draft = row_of(RoleBindingSpec, columns).draft(placement.name)
        return (await self._operations.create(actor, draft)).id

    async def update(self, actor: Actor, row: BindingView, columns: Columns) -> None:
        draft = row_of(RoleBindingSpec, columns).draft(self.name_of(row))
        await self._operations.update(actor, row.id, draft)


@dataclass(frozen=True, slots=True)
class GroupSpec(GroupChange):
    """A group with its members."""

    members: frozenset[str] = frozenset()
    """E-mail addresses of the members. Empty if an identity provider manages them."""


class GroupKind(KindWithOperations[Group, Groups]):
    """Groups. Members that an identity provider added are not part of the spec."""

    name = "Group"
    change = GroupSpec
    clearable = ("description",)
    port = GroupStore
    model = Group
    has_project = False
    hidden = ("name",)
    references = {"GroupSpec.members": "User"}

    async def values(self, tx: Transaction, rows: Sequence[Group]) -> Sequence[Columns]:
        members: dict[str, set[str]] = {row.id: set() for row in rows}
        for member in await tx[MembershipStore].of_groups(list(members)):
            if member.issuer is None:
                members[member.group_id].add(member.user_id)
        return [column_values(row) | {"members": frozenset(members[row.id])} for row in rows]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        group_columns = {name: value for name, value in columns.items() if name != "members"}
        change = row_of(GroupChange, self.with_placement(placement, group_columns))
        group = await self._operations.create(actor, change)
        for user_id in sorted(columns.get("members", ())):
            await self._operations.add_member(actor, group.id, user_id)
        return group.id

    async def update(self, actor: Actor, row: Group, columns: Columns) -> None:
        group_columns = {name: value for name, value in columns.items() if name != "members"}
        if group_columns:
            await self._operations.update(actor, row.id, row_of(GroupChange, group_columns))
        if "members" in columns:
            members = await self._operations.members(actor, row.id)
            before = {user.id for user in members}
            for user_id in sorted(columns["members"] - before):
                await self._operations.add_member(actor, row.id, user_id)
            for user_id in sorted(before - columns["members"]):
                await self._operations.remove_member(actor, row.id, user_id)


class AccountKind(ManifestKind[User]):
    """The fields and operations that people and service accounts share."""

    family = "User"
    port = UserStore
    has_project = False
    named_by = "email"
    accounts: ClassVar[UserKind]
    """Kind of users that the manifests describe; references find all."""

    def __init__(self, users: Users) -> None:
        self._users = users

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[User]:
        return await tx[UserStore].by_emails(names)

    def name_of(self, row: User) -> str:
        return row.email

    def is_declared(self, row: User) -> bool:
        return row.kind is self.accounts and row.disabled_at is None

    async def values(self, tx: Transaction, rows: Sequence[User]) -> Sequence[Columns]:
        return [{"display_name": row.name} for row in rows]

    async def update(self, actor: Actor, row: User, columns: Columns) -> None:
        await self._users.update(actor, row.id, columns.get("display_name"), None)

    async def delete(self, actor: Actor, row: User) -> None:
        """Disables the user: entries in the audit log keep their author."""
        await self._users.disable(actor, row.id)


@dataclass(frozen=True, slots=True)
class UserSpec:
    """A person. The e-mail address is the name of the manifest."""

    display_name: str | None = None
    """Display name. Default: the address."""


class UserManifestKind(AccountKind):
    """People, without their passwords and sessions. They sign in as before."""

    name = "User"
    change = UserSpec
    accounts = UserKind.PERSON

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        name = columns.get("display_name")
        return (await self._users.create(actor, placement.name, name)).id


@dataclass(frozen=True, slots=True)
class ServiceAccountSpec:
    """A service account. Its e-mail address is the name of the manifest."""

    display_name: str | None = None
    """Display name. Default: the part of the address before the `@`."""


class ServiceAccountKind(AccountKind):
    """Service accounts."""

    name = "ServiceAccount"
    change = ServiceAccountSpec
    accounts = UserKind.SERVICE_ACCOUNT

    def __init__(self, accounts: ServiceAccounts, users: Users) -> None:
        super().__init__(users)
        self._accounts = accounts

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        local, _, domain = placement.name.partition("@")
        name = columns.get("display_name") or local
        if domain != ACCOUNT_DOMAIN:
            return (await self._accounts.create(actor, name, placement.name)).id
        account = await self._accounts.create(actor, local)
        if name != local:
            await self._accounts.update(actor, account.id, name, None)
        return account.id


class TrustedIssuerKind(OperatedKind[TrustRule]):
    """Trust rules: tokens of other issuers that are exchanged for those of a service account."""

    name = "TrustedIssuer"
    name_form = LABEL_NAME
    change = TrustRuleChange
    port = TrustRuleStore
    model = TrustRule
    has_project = False
    hidden = ("name",)
    references = {"TrustRuleSpec.service_account_id": "User"}

    async def values(self, tx: Transaction, rows: Sequence[TrustRule]) -> Sequence[Columns]:
        return [column_values(row) | {"keys": row.spec.keys or ""} for row in rows]
