"""Mutations of users, projects, roles and permissions."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.inputs import (
    AccessTokenAttributes,
    GroupAttributes,
    ProjectAttributes,
    RbacAttributes,
    RoleAttributes,
    RoleBindingAttributes,
    ServiceAccountAttributes,
    TrustRuleAttributes,
    UserAttributes,
    subjects_by_role,
)
from controlplane.access.api.loading import projects_with_bindings
from controlplane.access.api.types import (
    AccessRequestType,
    AccessToken,
    GroupMember,
    GroupType,
    ProjectType,
    RoleBinding,
    RoleType,
    TrustRuleType,
    UserType,
)
from controlplane.access.model.bindings import AccessRequest
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import Users
from controlplane.authorization.resources import ResourceKind, scope_of
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from core.errors import Invalid, NotFound


async def _requests(info: Info, rows: Sequence[AccessRequest]) -> list[AccessRequestType]:
    requests, actor = info.context[AccessRequests], info.context.actor
    return [AccessRequestType.of_view(await requests.get(actor, row.id)) for row in rows]


_RULES = ResourceFields(
    "trust rule", TrustRules, TrustRuleType, each(TrustRuleType.of), is_nullable=False
)
_TOKENS = ResourceFields(
    "token", CredentialAuthenticator, AccessToken, each(AccessToken.of), is_nullable=False
)
_USERS = ResourceFields("user", Users, UserType, each(UserType.of))
_GROUPS = ResourceFields("group", Groups, GroupType, each(GroupType.of))
_ROLES = ResourceFields("role", Roles, RoleType, each(RoleType.of))
_BINDINGS = ResourceFields("role binding", RoleBindings, RoleBinding, each(RoleBinding.of_view))
_PROJECTS = ResourceFields("project", Projects, ProjectType, projects_with_bindings)
_REQUESTS = ResourceFields(
    "access request", AccessRequests, AccessRequestType, _requests, is_nullable=False
)


@strawberry.type
class AccessMutation:
    @strawberry.mutation
    async def upsert_user(self, info: Info, attributes: UserAttributes) -> UserType | None:
        """Creates a user, or changes the name and role of a known one.

        Args:
            attributes: Fields of the user. `email` identifies the user.
        """
        users, actor = info.context[Users], info.context.actor
        row = await users.upsert(actor, attributes.email or "", attributes.name, attributes.role)
        return UserType.of(row, role=(await users.roles_everywhere(actor, [row])).get(row.id))

    @strawberry.mutation
    async def update_user(
        self, info: Info, attributes: UserAttributes, id: strawberry.ID | None = None
    ) -> UserType | None:
        """Changes the name or the e-mail address of a user.

        Args:
            attributes: Fields to change.
            id: ID of the user. Required; nullable for compatible clients.
        """
        users, actor = info.context[Users], info.context.actor
        if attributes.role is not None:
            raise Invalid("updateUser does not change roles; use upsertUser", field="role")
        return UserType.of(await users.update(actor, id or "", attributes.name, attributes.email))

    disable_user = _USERS.call(Users.disable, user_id="id")
    """Disables or enables a user. Disabling ends all sessions and open requests of the user.

    Args:
        disabled: False enables the user again. Default: true.
    """

    @strawberry.mutation
    async def create_service_account(
        self, info: Info, attributes: ServiceAccountAttributes
    ) -> UserType | None:
        """Creates a service account, which authenticates with tokens only.

        Args:
            attributes: Name and address of the service account.
        """
        accounts, name = info.context[ServiceAccounts], attributes.name or ""
        return UserType.of(await accounts.create(info.context.actor, name, attributes.email))

    @strawberry.mutation
    async def update_service_account(
        self, info: Info, id: strawberry.ID, attributes: ServiceAccountAttributes
    ) -> UserType | None:
        """Updates a service account.

        Args:
            id: ID of the service account.
            attributes: Fields to change.
        """
        accounts, actor = info.context[ServiceAccounts], info.context.actor
        return UserType.of(await accounts.update(actor, id, attributes.name, attributes.email))

    @strawberry.mutation
    async def create_service_account_token(
        self, info: Info, id: strawberry.ID, attributes: AccessTokenAttributes
    ) -> AccessToken:
        """Creates a token for a service account. Only this response contains the secret `token`.

        Args:
            id: ID of the service account.
            attributes: Name, lifetime and limits of the token.
        """
        accounts = info.context[ServiceAccounts]
        row, secret = await accounts.create_token(
            info.context.actor, id, attributes.name, attributes.lifetime()
        )
        return AccessToken.of(row, token=secret)

    create_trust_rule = _RULES.create(TrustRules.create, TrustRuleAttributes)
    """Lets tokens of an external issuer be exchanged for tokens of a service account. Limit:
    100 rules per issuer."""
    update_trust_rule = _RULES.update(TrustRules.update, TrustRuleAttributes)
    """Updates a trust rule. Issued tokens stay valid until they expire."""
    delete_trust_rule = _RULES.action(TrustRules.delete)
    """Deletes a trust rule."""

    @strawberry.mutation
    async def create_access_token(
        self, info: Info, attributes: AccessTokenAttributes
    ) -> AccessToken:
        """Creates a token for the caller. Only this response contains the secret `token`.

        Args:
            attributes: Name, lifetime and limits of the token.
        """
        limits = tuple(scope.change() for scope in attributes.scopes or ())
        row, secret = await info.context[CredentialAuthenticator].create_token(
            info.context.actor, attributes.name, attributes.lifetime(), limits
        )
        return AccessToken.of(row, token=secret)

    delete_access_token = _TOKENS.action(CredentialAuthenticator.revoke_token)
    """Revokes a token. Requests opened with it end within seconds."""

    @strawberry.mutation
    async def sign_out_everywhere(self, info: Info) -> int:
        """Ends all sessions of the caller, in browsers and programs. Returns their number."""
        return await info.context[CredentialAuthenticator].sign_out_everywhere(info.context.actor)

    @strawberry.mutation
    async def create_ticket(self, info: Info) -> str:
        """Creates a one-time ticket that opens a single WebSocket within 60 s."""
        return await info.context[CredentialAuthenticator].create_ticket(info.context.actor)

    create_group = _GROUPS.create(Groups.create, GroupAttributes)
    """Creates a group."""
    update_group = _GROUPS.call(Groups.update, GroupAttributes, id="group_id")
    """Updates a group.

    Args:
        attributes: Fields to change.
    """
    delete_group = _GROUPS.call(Groups.delete, id="group_id")
    """Deletes a group and its role bindings."""

    @strawberry.mutation
    async def create_group_member(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID
    ) -> GroupMember | None:
        """Adds a user to a group."""
        groups = info.context[Groups]
        return GroupMember.of(*await groups.add_member(info.context.actor, group_id, user_id))

    @strawberry.mutation
    async def delete_group_member(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID
    ) -> GroupMember | None:
        """Removes a user from a group."""
        groups = info.context[Groups]
        return GroupMember.of(*await groups.remove_member(info.context.actor, group_id, user_id))

    create_project = _PROJECTS.create(Projects.create, ProjectAttributes)
    """Creates a project."""
    update_project = _PROJECTS.update(Projects.update, ProjectAttributes)
    """Updates a project."""

    @strawberry.mutation
    async def delete_project(self, info: Info, id: strawberry.ID) -> ProjectType | None:
        """Deletes an empty project.

        Args:
            id: ID of the project.
        """
        return ProjectType.of(await info.context[Projects].delete(info.context.actor, id))

    @strawberry.mutation
    async def update_rbac(
        self,
        info: Info,
        rbac: RbacAttributes,
        service_id: strawberry.ID | None = None,
        cluster_id: strawberry.ID | None = None,
        provider_id: strawberry.ID | None = None,
    ) -> bool | None:
        """Sets the users and groups with read and write access to a cluster or a service. Give
        exactly one ID.

        Args:
            rbac: Users and groups with access.
            service_id: ID of the service.
            cluster_id: ID of the cluster.
            provider_id: Not supported. Present for compatibility.
        """
        if provider_id:
            raise NotFound
        if bool(service_id) == bool(cluster_id):
            raise Invalid("give either clusterId or serviceId")
        kind = ResourceKind.SERVICE if service_id else ResourceKind.CLUSTER
        scope = scope_of(kind, service_id or cluster_id or "")
        await info.context[RoleBindings].set_subjects(
            info.context.actor, scope, subjects_by_role(rbac)
        )
        return True

    create_role = _ROLES.create(Roles.create, RoleAttributes)
    """Creates a role."""
    update_role = _ROLES.update(Roles.update, RoleAttributes)
    """Updates a role for all its holders."""
    delete_role = _ROLES.action(Roles.delete)
    """Deletes a role. Fails with CONFLICT while the role is bound."""
    create_role_binding = _BINDINGS.create(RoleBindings.create, RoleBindingAttributes)
    """Binds a role to a user or a group. Callers can grant only permissions that they hold.

    Args:
        attributes: Role, scope, and user or group.
    """
    delete_role_binding = _BINDINGS.action(RoleBindings.delete)
    """Removes a role binding. Requests opened through it end within seconds."""
    request_access = _REQUESTS.call(AccessRequests.create, role_name="role")
    """Requests temporary access. Another user decides.

    Args:
        role: ID or name of the role.
        scope: Scope of the role, such as `project:ID`.
        minutes: Duration in minutes. Limit: 10,080 (7 days).
        reason: Reason shown to the approver. Limit: 1,000 characters.
    """
    approve_access = _REQUESTS.action(AccessRequests.approve)
    """Approves an access request of another user. The role is bound from now on."""
    deny_access = _REQUESTS.action(AccessRequests.deny)
    """Denies an access request."""
    revoke_access = _REQUESTS.action(AccessRequests.revoke)
    """Revokes approved access and ends open sessions."""
