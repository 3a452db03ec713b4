"""Groups and their members."""

from dataclasses import dataclass, replace

from controlplane.access.model.users import Group, Membership, User
from controlplane.access.operations.delegation import require_permissions_of_group
from controlplane.access.operations.scopes import groups_of
from controlplane.access.operations.users import find_user
from controlplane.access.ports import GroupStore, MembershipStore, RoleBindingStore, UserStore
from controlplane.authorization import Actor, ActorKind, Resource, ResourceKind, Verb, require
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ACCESS, StoreOperations
from controlplane.platform.limits import check_length
from controlplane.platform.names import check_text
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from core.errors import NotFound

_MAX_DESCRIPTION_LENGTH = 1000
_READ_USERS = (Verb.READ, Resource.whole(ResourceKind.USER))
_ADMINISTER_GROUPS = (Verb.ADMINISTER, Resource.whole(ResourceKind.GROUP))


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Changes to a group. None leaves a field unchanged."""

    name: str | None = None
    """Unique name."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    everyone: bool | None = None
    """True makes every user a member. Default: false."""
    issuer: str | None = None
    """Identity provider that manages the members. Null: members are managed here."""

    def applied(self, group: Group) -> Group:
        """The changed group. Invalid: a value is not allowed."""
        if self.name or not group.name:
            group = replace(group, name=check_text(self.name or "", "name"))
        if self.description is not None:
            description = check_length(self.description, "description", _MAX_DESCRIPTION_LENGTH)
            group = replace(group, description=description)
        if self.everyone is not None:
            group = replace(group, everyone=self.everyone)
        if self.issuer is not None:
            group = replace(group, issuer=self.issuer or None)
        return group


@retry_operations
class Groups(StoreOperations):
    """Operations on groups and their members."""

    async def page(self, actor: Actor, query: PageQuery) -> Page[Group]:
        """Groups; every member of the installation may see their names."""
        async with self._context.read(actor) as tx:
            return await tx[GroupStore].page(query)

    async def get(self, actor: Actor, name: str) -> Group:
        """The group with this name. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            group = await tx[GroupStore].by_name(name) if name else None
        if group is None:
            raise NotFound
        return group

    async def members(self, actor: Actor, group_id: str) -> list[User]:
        """The users in a group; empty for a group that contains everyone."""
        require(actor, *_READ_USERS)
        async with self._context.store.read() as tx:
            rows = await tx[MembershipStore].of_groups(group_id)
            return await tx[UserStore].by_ids([row.user_id for row in rows]) if rows else []

    async def of_actor(self, actor: Actor) -> list[Group]:
        """The caller's own groups."""
        async with self._context.read(actor) as tx:
            return await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)

    async def create(self, actor: Actor, change: GroupChange) -> Group:
        now = self._context.clock.now()
        async with self._context.change(actor, "createGroup", _ADMINISTER_GROUPS) as tx:
            group = change.applied(Group(self._context.new_id(), "", now, now))
            if (existing := await tx[GroupStore].by_name(group.name)) is not None:
                raise name_conflict(actor, existing, f"group {group.name!r} already exists")
            await tx[GroupStore].add(group)
            tx[MembershipStore].mark_absent("group_id", group.id)
            tx[RoleBindingStore].mark_absent("subject_id", group.id)
            tx.audit(group.name, group.id)
        return group

    async def update(self, actor: Actor, id: str, change: GroupChange) -> Group:
        async with self._context.change(actor, "updateGroup", _ADMINISTER_GROUPS) as tx:
            before = await find_group(tx, id)
            group = replace(change.applied(before), updated_at=self._context.clock.now())
            if _member_sources(group) != _member_sources(before):
                await require_permissions_of_group(tx, actor, id, self._context.clock.now())
            await tx[GroupStore].put(group)
            tx.audit(group.name, id)
            tx.publish(ACCESS)
        return group

    async def delete(self, actor: Actor, id: str) -> Group:
        """Deletes a group and its role bindings."""
        async with self._context.change(actor, "deleteGroup", _ADMINISTER_GROUPS) as tx:
            group = await find_group(tx, id)
            now = self._context.clock.now()
            await require_permissions_of_group(tx, actor, id, now, now)
            await delete_group_rows(tx, id)
            tx.audit(group.name, id)
            tx.publish(ACCESS)
        return group

    async def add_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Adds a user to a group.

        Forbidden: the group has a permission that the actor lacks.
        """
        async with self._context.change(actor, "createGroupMember", _ADMINISTER_GROUPS) as tx:
            with reference("groupId", group_id):
                group = await find_group(tx, group_id)
            with reference("userId", user_id):
                user = await find_user(tx, user_id)
            now = self._context.clock.now()
            await require_permissions_of_group(tx, actor, group_id, now)
            row = await tx[MembershipStore].of_member(group_id, user_id)
            if row is None:
                row = Membership(self._context.new_id(), group_id, user_id, now)
                await tx[MembershipStore].add(row)
            tx.audit(group.name, group_id, user=user.email)
            tx.publish(ACCESS, user_id)
        return row, group, user

    async def remove_member(
        self, actor: Actor, group_id: str, user_id: str
    ) -> tuple[Membership, Group, User]:
        """Removes a user from a group. NotFound: the user is not a member."""
        async with self._context.change(actor, "deleteGroupMember", _ADMINISTER_GROUPS) as tx:
            group, user = await find_group(tx, group_id), await find_user(tx, user_id)
            row = found(await tx[MembershipStore].of_member(group_id, user_id))
            now = self._context.clock.now()
            await require_permissions_of_group(tx, actor, group_id, now, now)
            await tx[MembershipStore].remove(row.id)
            tx.audit(group.name, group_id, user=user.email)
            tx.publish(ACCESS, user_id)
        return row, group, user


async def find_group(tx: Transaction, id: str) -> Group:
    """The group with this id. NotFound: it does not exist."""
    return found(await tx[GroupStore].get(id))


async def delete_group_rows(tx: Transaction, id: str) -> None:
    """Deletes a group with its memberships and role bindings."""
    await tx[MembershipStore].remove_each(
        [membership.id for membership in await tx[MembershipStore].of_groups(id)]
    )
    await tx[RoleBindingStore].remove_each(
        [binding.id for binding in await tx[RoleBindingStore].of_subjects(id)]
    )
    await tx[GroupStore].remove(id)


def _member_sources(group: Group) -> tuple[bool | None, str | None, str]:
    """The sources of automatic members. An identity provider matches groups by name."""
    return group.everyone, group.issuer, group.name if group.issuer else ""
