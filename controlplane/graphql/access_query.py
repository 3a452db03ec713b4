"""Queries of users, projects, roles and permissions."""

import strawberry

from controlplane.domain.access import ResourceKind, Scope, Verb
from controlplane.graphql import relay
from controlplane.graphql.access import (
    AccessHolder,
    AccessReason,
    AccessRequestType,
    GroupType,
    ProjectType,
    RoleBinding,
    RoleType,
    TrustRuleType,
)
from controlplane.graphql.context import Info
from controlplane.graphql.users import AccessToken, UserType


@strawberry.type
class AccessQuery:
    @strawberry.field
    async def me(self, info: Info) -> UserType:
        """The caller."""
        people, actor = info.context.verbs.people, info.context.actor
        row = await info.context.verbs.identity.me(actor)
        return UserType.of(row, (await people.roles_everywhere(actor, [row])).get(row.id))

    @strawberry.field
    async def my_access(self, info: Info) -> list[AccessReason]:
        """Roles of the caller, with scope and origin."""
        return [
            AccessReason(role=g.role.name, scope=g.scope, why=g.why, expires_at=g.expires_at)
            for g in info.context.actor.policy.grants
        ]

    @strawberry.field
    async def my_groups(self, info: Info) -> list[GroupType]:
        """Groups of the caller."""
        rows = await info.context.verbs.people.groups_of(info.context.actor)
        return [GroupType.of(row) for row in rows]

    @strawberry.field
    async def sessions(self, info: Info) -> list[AccessToken]:
        """Browser sessions of the caller."""
        rows = await info.context.verbs.identity.sessions(info.context.actor)
        return [AccessToken.of(row) for row in rows]

    @strawberry.field
    async def access_tokens(self, info: Info) -> list[AccessToken]:
        """Tokens of the caller, without their secrets."""
        rows = await info.context.verbs.identity.tokens(info.context.actor)
        return [AccessToken.of(row) for row in rows]

    @strawberry.field
    async def users(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[UserType]:
        """Users and service accounts of the installation.

        Args:
            q: Text to search for in names and e-mail addresses. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        people, actor = info.context.verbs.people, info.context.actor
        page = await people.users(actor, asked)
        roles = await people.roles_everywhere(actor, page.items)
        nodes = [UserType.of(row, roles.get(row.id)) for row in page.items]
        return relay.connection(nodes, page.more, asked, lambda node: node.id)

    @strawberry.field
    async def user(self, info: Info, email: str) -> UserType | None:
        """A user, by e-mail address.

        Args:
            email: E-mail address.
        """
        return UserType.of(await info.context.verbs.people.user(info.context.actor, email))

    @strawberry.field
    async def groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[GroupType]:
        """Groups."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.people.groups(info.context.actor, asked)
        return relay.connection_of(page, asked, GroupType.of)

    @strawberry.field
    async def group(self, info: Info, name: str) -> GroupType | None:
        """A group, by name.

        Args:
            name: Exact name.
        """
        return GroupType.of(await info.context.verbs.people.group(info.context.actor, name))

    @strawberry.field
    async def group_members(self, info: Info, group_id: strawberry.ID) -> list[UserType]:
        """Members of a group.

        Args:
            group_id: ID of the group.
        """
        rows = await info.context.verbs.people.members(info.context.actor, group_id)
        return [UserType.of(row) for row in rows]

    @strawberry.field
    async def projects(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ProjectType]:
        """Projects."""
        asked = relay.page_query(first, after, q)
        verbs, actor = info.context.verbs, info.context.actor
        page = await verbs.projects.page(actor, asked)
        bindings = await verbs.rights.bindings(actor)
        nodes = [ProjectType.of(row, bindings) for row in page.items]
        return relay.connection(nodes, page.more, asked, lambda node: node.id)

    @strawberry.field
    async def project(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ProjectType | None:
        """A project, by ID or name.

        Args:
            id: ID of the project.
        """
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.projects.get(actor, id, name)
        return ProjectType.of(row, await verbs.rights.bindings(actor, row.target.scope))

    @strawberry.field
    async def roles(self, info: Info) -> list[RoleType]:
        """All roles, built-in ones first."""
        return [
            RoleType.of(row) for row in await info.context.verbs.rights.roles(info.context.actor)
        ]

    @strawberry.field
    async def role(self, info: Info, name: str) -> RoleType | None:
        """A role, by ID or name.

        Args:
            name: ID or name of the role.
        """
        return RoleType.of(await info.context.verbs.rights.role(info.context.actor, name))

    @strawberry.field
    async def role_bindings(self, info: Info, scope: str | None = None) -> list[RoleBinding]:
        """Role bindings that the caller may read.

        Args:
            scope: Only bindings in this scope, such as `project:ID`.
        """
        rights = info.context.verbs.rights
        views = await rights.bindings(info.context.actor, Scope(scope) if scope else None)
        return [RoleBinding.of(view) for view in views]

    @strawberry.field
    async def can(
        self, info: Info, verb: Verb, kind: ResourceKind, id: strawberry.ID | None = None
    ) -> bool:
        """True if the caller may perform an operation.

        Args:
            verb: Operation.
            kind: Kind of resource.
            id: ID of the resource. Null: every resource of the kind.
        """
        return await info.context.verbs.rights.can(info.context.actor, verb, kind, id or "")

    @strawberry.field
    async def who_can(
        self, info: Info, verb: Verb, kind: ResourceKind, id: strawberry.ID | None = None
    ) -> list[AccessHolder]:
        """Users with permission for an operation, and their reasons.

        Args:
            verb: Operation.
            kind: Kind of resource.
            id: ID of the resource. Null: every resource of the kind.
        """
        rights = info.context.verbs.rights
        holders = await rights.who_can(info.context.actor, verb, kind, id or "")
        return [AccessHolder.of(holder) for holder in holders]

    @strawberry.field
    async def access_requests(self, info: Info) -> list[AccessRequestType]:
        """Access requests of the caller, and those that the caller may decide."""
        found = await info.context.verbs.requests.all(info.context.actor)
        return [AccessRequestType.of(*view) for view in found]

    @strawberry.field
    async def trust_rules(self, info: Info) -> list[TrustRuleType]:
        """Rules that exchange external tokens for tokens of service accounts."""
        rows = await info.context.verbs.accounts.trust_rules(info.context.actor)
        return [TrustRuleType.of(row) for row in rows]
