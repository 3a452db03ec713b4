"""Queries of users, projects, roles and permissions."""

import strawberry

from controlplane.access.api.types import (
    AccessHolder,
    AccessReason,
    AccessRequestType,
    AccessToken,
    GroupType,
    ProjectType,
    RoleBinding,
    RoleType,
    TrustRuleType,
    UserType,
)
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.roles import AccessControl
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import UserOperations
from controlplane.authorization import ResourceKind, Scope, Verb
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.labels import parse_selector


@strawberry.type
class AccessQuery:
    @strawberry.field
    async def me(self, info: Info) -> UserType:
        """The caller."""
        users, actor = info.context[UserOperations], info.context.actor
        row = await info.context[CredentialAuthenticator].me(actor)
        return UserType.of(row, role=(await users.roles_everywhere(actor, [row])).get(row.id))

    @strawberry.field
    async def my_access(self, info: Info) -> list[AccessReason]:
        """Roles of the caller, with scope and origin."""
        return AccessReason.of_each(info.context.actor.policy.grants)

    @strawberry.field
    async def my_groups(self, info: Info) -> list[GroupType]:
        """Groups of the caller."""
        rows = await info.context[UserOperations].groups_of(info.context.actor)
        return GroupType.of_each(rows)

    @strawberry.field
    async def sessions(self, info: Info) -> list[AccessToken]:
        """Browser sessions of the caller."""
        rows = await info.context[CredentialAuthenticator].sessions(info.context.actor)
        return AccessToken.of_each(rows)

    @strawberry.field
    async def access_tokens(self, info: Info) -> list[AccessToken]:
        """Tokens of the caller, without their secrets."""
        rows = await info.context[CredentialAuthenticator].tokens(info.context.actor)
        return AccessToken.of_each(rows)

    @strawberry.field
    async def users(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[UserType]:
        """Users and service accounts of the installation.

        Args:
            q: Text to search for in names and e-mail addresses. Limit: 200 characters.
        """
        query = relay.page_query(first, after, q, labels=labels)
        users, actor = info.context[UserOperations], info.context.actor
        page = await users.users(actor, query)
        roles = await users.roles_everywhere(actor, page.items)
        nodes = [UserType.of(row, role=roles.get(row.id)) for row in page.items]
        return relay.connection(nodes, page.more, query, lambda node: node.id)

    @strawberry.field
    async def user(self, info: Info, email: str) -> UserType | None:
        """A user, by e-mail address.

        Args:
            email: E-mail address.
        """
        return UserType.of(await info.context[UserOperations].user(info.context.actor, email))

    @strawberry.field
    async def groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[GroupType]:
        """Groups."""
        query = relay.page_query(first, after, q, labels=labels)
        page = await info.context[UserOperations].groups(info.context.actor, query)
        return relay.connection_of(page, query, GroupType.of)

    @strawberry.field
    async def group(self, info: Info, name: str) -> GroupType | None:
        """A group, by name.

        Args:
            name: Exact name.
        """
        return GroupType.of(await info.context[UserOperations].group(info.context.actor, name))

    @strawberry.field
    async def group_members(self, info: Info, group_id: strawberry.ID) -> list[UserType]:
        """Members of a group.

        Args:
            group_id: ID of the group.
        """
        rows = await info.context[UserOperations].members(info.context.actor, group_id)
        return UserType.of_each(rows)

    @strawberry.field
    async def projects(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ProjectType]:
        """Projects."""
        query = relay.page_query(first, after, q, labels=labels)
        context, actor = info.context, info.context.actor
        page = await context[Projects].page(actor, query)
        bindings = await context[AccessControl].bindings_of_resources(actor)
        nodes = [ProjectType.with_bindings(row, bindings) for row in page.items]
        return relay.connection(nodes, page.more, query, lambda node: node.id)

    @strawberry.field
    async def project(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ProjectType | None:
        """A project, by ID or name.

        Args:
            id: ID of the project.
        """
        context, actor = info.context, info.context.actor
        row = await context[Projects].get(actor, id, name)
        bindings = await context[AccessControl].bindings_of_resources(actor, row.target.scope)
        return ProjectType.with_bindings(row, bindings)

    @strawberry.field
    async def roles(self, info: Info, labels: str | None = None) -> list[RoleType]:
        """All roles, built-in ones first."""
        rights, wanted = info.context[AccessControl], parse_selector(labels or "")
        return RoleType.of_each(await rights.roles(info.context.actor, wanted))

    @strawberry.field
    async def role(self, info: Info, name: str) -> RoleType | None:
        """A role, by ID or name.

        Args:
            name: ID or name of the role.
        """
        return RoleType.of(await info.context[AccessControl].role(info.context.actor, name))

    @strawberry.field
    async def role_bindings(
        self, info: Info, scope: str | None = None, labels: str | None = None
    ) -> list[RoleBinding]:
        """Role bindings that the caller may read.

        Args:
            scope: Only bindings in this scope, such as `project:ID`.
        """
        rights = info.context[AccessControl]
        wanted = parse_selector(labels or "")
        views = await rights.bindings(info.context.actor, Scope(scope) if scope else None, wanted)
        return [RoleBinding.of_view(view) for view in views]

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
        return await info.context[AccessControl].can(info.context.actor, verb, kind, id or "")

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
        rights = info.context[AccessControl]
        holders = await rights.who_can(info.context.actor, verb, kind, id or "")
        return AccessHolder.of_each(holders)

    @strawberry.field
    async def access_requests(self, info: Info) -> list[AccessRequestType]:
        """Access requests of the caller, and those that the caller may decide."""
        views = await info.context[AccessRequests].all(info.context.actor)
        return [AccessRequestType.of_view(view) for view in views]

    @strawberry.field
    async def trust_rules(self, info: Info, labels: str | None = None) -> list[TrustRuleType]:
        """Rules that exchange external tokens for tokens of service accounts."""
        rows = await info.context[TrustRules].all(info.context.actor, parse_selector(labels or ""))
        return TrustRuleType.of_each(rows)
