"""Queries of users, projects, roles and permissions."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_with_bindings
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
from controlplane.access.model.users import User
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import Users
from controlplane.authorization import ResourceKind, Scope, Verb
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.labels import parse_selector


async def _users(info: Info, rows: Sequence[User]) -> list[UserType]:
    roles = await info.context[Users].roles_everywhere(info.context.actor, rows)
    return [UserType.of(row, role=roles.get(row.id)) for row in rows]


_GROUPS = ResourceFields("group", Groups, GroupType, each(GroupType.of))
_USERS = ResourceFields("user", Users, UserType, _users)
_TOKENS = ResourceFields("token", CredentialAuthenticator, AccessToken, each(AccessToken.of))
_PROJECTS = ResourceFields("project", Projects, ProjectType, projects_with_bindings)


@strawberry.type
class AccessQuery:
    @strawberry.field
    async def me(self, info: Info) -> UserType:
        """The caller."""
        row = await info.context[CredentialAuthenticator].me(info.context.actor)
        return await _USERS.one(info, row)

    @strawberry.field
    async def my_access(self, info: Info) -> list[AccessReason]:
        """Roles of the caller, with scope and origin."""
        return AccessReason.of_each(info.context.actor.policy.grants)

    my_groups = _GROUPS.all(Groups.of_actor)
    """Groups of the caller."""
    sessions = _TOKENS.all(CredentialAuthenticator.sessions)
    """Browser sessions of the caller."""
    access_tokens = _TOKENS.all(CredentialAuthenticator.tokens)
    """Tokens of the caller, without their secrets."""
    users = _USERS.page(Users.page)
    """Users and service accounts of the installation.

    Args:
        q: Text to search for in names and e-mail addresses. Limit: 200 characters.
    """

    @strawberry.field
    async def user(self, info: Info, email: str) -> UserType | None:
        """A user, by e-mail address.

        Args:
            email: E-mail address.
        """
        return UserType.of(await info.context[Users].get(info.context.actor, email))

    groups = _GROUPS.page(Groups.page)
    """Groups."""
    group = _GROUPS.lookup(Groups.get)
    """A group, by name.

    Args:
        name: Exact name.
    """

    @strawberry.field
    async def group_members(self, info: Info, group_id: strawberry.ID) -> list[UserType]:
        """Members of a group."""
        rows = await info.context[Groups].members(info.context.actor, group_id)
        return UserType.of_each(rows)

    projects = _PROJECTS.page(Projects.page)
    """Projects."""
    project = _PROJECTS.get(Projects.get)
    """A project, by ID or name."""

    @strawberry.field
    async def roles(self, info: Info, labels: str | None = None) -> list[RoleType]:
        """All roles, built-in ones first."""
        roles, requirements = info.context[Roles], parse_selector(labels or "")
        return RoleType.of_each(await roles.all(info.context.actor, requirements))

    @strawberry.field
    async def role(self, info: Info, name: str) -> RoleType | None:
        """A role, by ID or name.

        Args:
            name: ID or name of the role.
        """
        return RoleType.of(await info.context[Roles].get(info.context.actor, name))

    @strawberry.field
    async def role_bindings(
        self, info: Info, scope: str | None = None, labels: str | None = None
    ) -> list[RoleBinding]:
        """Role bindings that the caller may read.

        Args:
            scope: Only bindings in this scope, such as `project:ID`.
        """
        bindings = info.context[RoleBindings]
        requirements = parse_selector(labels or "")
        views = await bindings.all(
            info.context.actor, Scope(scope) if scope else None, requirements
        )
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
        return await info.context[Permissions].can(info.context.actor, verb, kind, id or "")

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
        permissions = info.context[Permissions]
        holders = await permissions.who_can(info.context.actor, verb, kind, id or "")
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
