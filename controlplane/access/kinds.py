"""Kinds of manifests: projects, roles, groups, service accounts and trusted issuers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import Group, User, UserKind
from controlplane.access.operations.bindings import Subjects
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.roles import AccessControl, RoleChange
from controlplane.access.operations.trust_rules import TrustRuleChange
from controlplane.access.operations.users import ACCOUNT_DOMAIN, GroupChange, UserOperations
from controlplane.access.ports import (
    GroupStore,
    MembershipStore,
    ProjectStore,
    RoleBindingStore,
    RoleStore,
    TrustRuleStore,
    UserStore,
)
from controlplane.authorization import Actor, Resource, ResourceKind, Role, Verb
from controlplane.platform.kinds import ManifestKind, OperatedKind, Placement
from controlplane.platform.parts import Columns, column_values, row_of
from controlplane.platform.ports import Transaction

T = TypeVar("T", bound="Targeted")

BINDING_REFERENCES = {"Subjects.users": "User", "Subjects.groups": "Group"}
"""References in the field `bindings` of a kind."""


class Targeted(Protocol):
    """A resource that roles can be bound on."""

    @property
    def id(self) -> str: ...

    @property
    def target(self) -> Resource: ...


async def _subjects_of(
    tx: Transaction, rows: Sequence[Targeted]
) -> dict[str, Mapping[str, Subjects]]:
    """Returns the permanent subjects of roles on resources, by ID of the resource."""
    scopes = {row.target.scope: row.id for row in rows}
    found: dict[str, dict[str, list[Binding]]] = {}
    for binding in await tx[RoleBindingStore].in_scopes(list(scopes)):
        if binding.expires_at is None:
            roles = found.setdefault(scopes[binding.scope], {})
            roles.setdefault(binding.role_id, []).append(binding)
    ids = {role for roles in found.values() for role in roles}
    custom = {role.id: role.name for role in await tx[RoleStore].by_ids(ids)}
    return {
        id: {custom.get(role, role): _subjects(bindings) for role, bindings in roles.items()}
        for id, roles in found.items()
    }


def _subjects(bindings: Sequence[Binding]) -> Subjects:
    ids = {
        kind: frozenset(b.subject_id for b in bindings if b.subject_kind is kind)
        for kind in SubjectKind
    }
    return Subjects(ids[SubjectKind.USER], ids[SubjectKind.GROUP])


class TargetedKind(ManifestKind[T]):
    """A kind on whose resources roles can be bound: the field `subjects` of its change."""

    references: ClassVar[Mapping[str, str]] = BINDING_REFERENCES

    def concealed(self, actor: Actor, row: T) -> Collection[str]:
        """Returns the field of role bindings unless the actor may read them."""
        is_reader = actor.may(Verb.READ, row.target.below(ResourceKind.BINDING))
        return () if is_reader else ("subjects",)

    async def values(self, tx: Transaction, rows: Sequence[T]) -> Sequence[Columns]:
        subjects = await _subjects_of(tx, rows)
        return [column_values(row) | {"subjects": subjects.get(row.id, {})} for row in rows]


class ProjectKind(OperatedKind[Project], TargetedKind[Project]):
    """Projects, with their fences and role bindings."""

    name = "Project"
    change = ProjectChange
    port = ProjectStore
    model = Project
    has_project = False
    hidden = ("name", "confirm_fence")
    rename = {"subjects": "bindings"}


class RoleKind(ManifestKind[Role]):
    """Custom roles."""

    name = "Role"
    change = RoleChange
    port = RoleStore
    model = Role
    has_project = False
    hidden = ("name",)

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def target_of(self, row: Role) -> Resource:
        return Resource.whole(ResourceKind.ROLE, row.id, row.name)

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = row_of(RoleChange, self.placed(placement, columns))
        return (await self._access.save_role(actor, change)).id

    async def update(self, actor: Actor, row: Role, columns: Columns) -> None:
        await self._access.save_role(actor, row_of(RoleChange, columns), row.id)

    async def delete(self, actor: Actor, row: Role) -> None:
        await self._access.delete_role(actor, row.id)


@dataclass(frozen=True, slots=True)
class GroupSpec(GroupChange):
    """A group with its members."""

    members: frozenset[str] = frozenset()
    """E-mail addresses of the members. Empty if an identity provider manages them."""


class GroupKind(ManifestKind[Group]):
    """Groups. Members that an identity provider added are not part of the spec."""

    name = "Group"
    change = GroupSpec
    port = GroupStore
    model = Group
    has_project = False
    hidden = ("name",)
    references = {"GroupSpec.members": "User"}

    def __init__(self, users: UserOperations) -> None:
        self._users = users

    async def values(self, tx: Transaction, rows: Sequence[Group]) -> Sequence[Columns]:
        found: dict[str, set[str]] = {row.id: set() for row in rows}
        for member in await tx[MembershipStore].of_groups(list(found)):
            if member.issuer is None:
                found[member.group_id].add(member.user_id)
        return [column_values(row) | {"members": frozenset(found[row.id])} for row in rows]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        given = {name: value for name, value in columns.items() if name != "members"}
        change = row_of(GroupChange, self.placed(placement, given))
        group = await self._users.create_group(actor, change)
        for user_id in sorted(columns.get("members", ())):
            await self._users.add_member(actor, group.id, user_id)
        return group.id

    async def update(self, actor: Actor, row: Group, columns: Columns) -> None:
        given = {name: value for name, value in columns.items() if name != "members"}
        if given:
            await self._users.update_group(actor, row.id, row_of(GroupChange, given))
        if "members" in columns:
            members = await self._users.members(actor, row.id)
            before = {user.id for user in members}
            for user_id in sorted(columns["members"] - before):
                await self._users.add_member(actor, row.id, user_id)
            for user_id in sorted(before - columns["members"]):
                await self._users.remove_member(actor, row.id, user_id)

    async def delete(self, actor: Actor, row: Group) -> None:
        await self._users.delete_group(actor, row.id)


@dataclass(frozen=True, slots=True)
class ServiceAccountSpec:
    """A service account. Its e-mail address is the name of the manifest."""

    display_name: str | None = None
    """Display name. Default: the part of the address before the `@`."""


class ServiceAccountKind(ManifestKind[User]):
    """Service accounts. References find people by their addresses as well."""

    name = "ServiceAccount"
    family = "User"
    change = ServiceAccountSpec
    port = UserStore
    has_project = False

    def __init__(self, users: UserOperations) -> None:
        self._users = users

    async def named(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[User]:
        return await tx[UserStore].by_emails(names)

    def name_of(self, row: User) -> str:
        return row.email

    def is_declared(self, row: User) -> bool:
        return row.kind is UserKind.SERVICE_ACCOUNT and row.disabled_at is None

    async def values(self, tx: Transaction, rows: Sequence[User]) -> Sequence[Columns]:
        return [{"display_name": row.name} for row in rows]

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        local, _, domain = placement.name.partition("@")
        name = columns.get("display_name") or local
        if domain != ACCOUNT_DOMAIN:
            return (await self._users.create_account(actor, name, placement.name)).id
        account = await self._users.create_account(actor, local)
        if name != local:
            await self._users.update_account(actor, account.id, name, None)
        return account.id

    async def update(self, actor: Actor, row: User, columns: Columns) -> None:
        await self._users.update_account(actor, row.id, columns.get("display_name"), None)

    async def delete(self, actor: Actor, row: User) -> None:
        """Disables the account: its entries in the audit log keep their author."""
        await self._users.disable(actor, row.id)


class TrustedIssuerKind(OperatedKind[TrustRule]):
    """Trust rules: tokens of other issuers that are exchanged for those of a service account."""

    name = "TrustedIssuer"
    change = TrustRuleChange
    port = TrustRuleStore
    model = TrustRule
    has_project = False
    hidden = ("name",)
    references = {"TrustRuleChange.service_account_id": "User"}

    async def values(self, tx: Transaction, rows: Sequence[TrustRule]) -> Sequence[Columns]:
        return [column_values(row) | {"keys": row.spec.keys or ""} for row in rows]
