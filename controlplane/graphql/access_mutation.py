"""What can be changed about people, projects, roles and rights."""

import strawberry

from controlplane.domain.access import Scope
from controlplane.domain.access.targets import Kind, scope_of
from controlplane.domain.bindings import Project as ProjectRow
from controlplane.graphql.access import (
    AccessRequest,
    Group,
    GroupAttributes,
    GroupMember,
    Project,
    ProjectAttributes,
    RbacAttributes,
    Role,
    RoleAttributes,
    RoleBinding,
    RoleBindingAttributes,
    TrustRule,
    TrustRuleAttributes,
    wanted,
)
from controlplane.graphql.context import Context, Info
from controlplane.graphql.inputs import AccessTokenAttributes, UserAttributes
from controlplane.graphql.users import AccessToken, User
from fleet.errors import Invalid, NotFound


@strawberry.type
class AccessMutation:
    @strawberry.mutation(description="Register a person, or change name and role of a known one.")
    async def upsert_user(self, info: Info, attributes: UserAttributes) -> User | None:
        people, actor = info.context.verbs.people, info.context.actor
        row = await people.upsert(actor, attributes.email or "", attributes.name, attributes.role)
        return User.of(row, (await people.roles_everywhere(actor, [row])).get(row.id))

    @strawberry.mutation(description="Change the name or the address of a person.")
    async def update_user(
        self, info: Info, attributes: UserAttributes, id: strawberry.ID | None = None
    ) -> User | None:
        people, actor = info.context.verbs.people, info.context.actor
        if attributes.role is not None:
            raise Invalid("is set by upsertUser", field="role")
        return User.of(await people.update(actor, id or "", attributes.name, attributes.email))

    @strawberry.mutation(description="Let a user in no more, or again; ends all they opened.")
    async def disable_user(
        self, info: Info, id: strawberry.ID, disabled: bool = True
    ) -> User | None:
        people = info.context.verbs.people
        return User.of(await people.disable(info.context.actor, id, disabled))

    @strawberry.mutation(description="A user that only carries tokens.")
    async def create_service_account(self, info: Info, name: str) -> User | None:
        return User.of(await info.context.verbs.people.create_account(info.context.actor, name))

    @strawberry.mutation(description="A token of a service account. `token` is given only here.")
    async def create_service_account_token(
        self, info: Info, id: strawberry.ID, attributes: AccessTokenAttributes
    ) -> AccessToken:
        people = info.context.verbs.people
        row, secret = await people.account_token(
            info.context.actor, id, attributes.name, attributes.life()
        )
        return AccessToken.of(row, secret)

    @strawberry.mutation(description="Exchange such tokens for those of a service account.")
    async def create_trust_rule(
        self, info: Info, user_id: strawberry.ID, attributes: TrustRuleAttributes
    ) -> TrustRule:
        accounts = info.context.verbs.accounts
        given = attributes
        row = await accounts.trust(
            info.context.actor,
            user_id,
            issuer=given.issuer,
            audience=given.audience,
            subject=given.subject,
            claims={one.name: one.value for one in given.claims},
            minutes=given.minutes,
            keys=given.keys,
        )
        return TrustRule.of(row)

    @strawberry.mutation
    async def delete_trust_rule(self, info: Info, id: strawberry.ID) -> TrustRule:
        return TrustRule.of(await info.context.verbs.accounts.distrust(info.context.actor, id))

    @strawberry.mutation(description="A token of the caller's. `token` is given only here.")
    async def create_access_token(
        self, info: Info, attributes: AccessTokenAttributes
    ) -> AccessToken:
        limits = tuple(one.limit() for one in attributes.scopes or ())
        row, secret = await info.context.verbs.identity.create_token(
            info.context.actor, attributes.name, attributes.life(), limits
        )
        return AccessToken.of(row, secret)

    @strawberry.mutation(description="Revoke a token; what it opened ends within seconds.")
    async def delete_access_token(self, info: Info, id: strawberry.ID) -> AccessToken:
        identity = info.context.verbs.identity
        return AccessToken.of(await identity.revoke_token(info.context.actor, id))

    @strawberry.mutation(description="End all sessions of the caller; how many there were.")
    async def sign_out_everywhere(self, info: Info) -> int:
        return await info.context.verbs.identity.sign_out_everywhere(info.context.actor)

    @strawberry.mutation(description="A secret that opens one WebSocket within 60 s.")
    async def create_ticket(self, info: Info) -> str:
        return await info.context.verbs.identity.ticket(info.context.actor)

    @strawberry.mutation
    async def create_group(self, info: Info, attributes: GroupAttributes) -> Group | None:
        people = info.context.verbs.people
        return Group.of(await people.create_group(info.context.actor, attributes.change()))

    @strawberry.mutation
    async def update_group(
        self, info: Info, group_id: strawberry.ID, attributes: GroupAttributes
    ) -> Group | None:
        people, change = info.context.verbs.people, attributes.change()
        return Group.of(await people.update_group(info.context.actor, group_id, change))

    @strawberry.mutation(description="Delete a group and the roles bound to it.")
    async def delete_group(self, info: Info, group_id: strawberry.ID) -> Group | None:
        return Group.of(await info.context.verbs.people.delete_group(info.context.actor, group_id))

    @strawberry.mutation
    async def create_group_member(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID
    ) -> GroupMember | None:
        people = info.context.verbs.people
        return GroupMember.of(*await people.add_member(info.context.actor, group_id, user_id))

    @strawberry.mutation
    async def delete_group_member(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID
    ) -> GroupMember | None:
        people = info.context.verbs.people
        return GroupMember.of(*await people.remove_member(info.context.actor, group_id, user_id))

    @strawberry.mutation
    async def create_project(self, info: Info, attributes: ProjectAttributes) -> Project | None:
        context = info.context
        projects, actor = context.verbs.projects, context.actor
        return await _with_bindings(context, await projects.create(actor, attributes.change()))

    @strawberry.mutation
    async def update_project(
        self, info: Info, id: strawberry.ID, attributes: ProjectAttributes
    ) -> Project | None:
        context = info.context
        row = await context.verbs.projects.update(context.actor, id, attributes.change())
        return await _with_bindings(context, row)

    @strawberry.mutation(description="Delete an empty project.")
    async def delete_project(self, info: Info, id: strawberry.ID) -> Project | None:
        return Project.of(await info.context.verbs.projects.delete(info.context.actor, id))

    @strawberry.mutation(description="Who may read, and who may write, a cluster or a service.")
    async def update_rbac(
        self,
        info: Info,
        rbac: RbacAttributes,
        service_id: strawberry.ID | None = None,
        cluster_id: strawberry.ID | None = None,
        provider_id: strawberry.ID | None = None,
    ) -> bool | None:
        if provider_id:
            raise NotFound
        if bool(service_id) == bool(cluster_id):
            raise Invalid("name a cluster or a service")
        kind = Kind.SERVICE if service_id else Kind.CLUSTER
        scope = scope_of(kind, service_id or cluster_id or "")
        await info.context.verbs.rights.set_subjects(info.context.actor, scope, wanted(rbac))
        return True

    @strawberry.mutation
    async def create_role(self, info: Info, attributes: RoleAttributes) -> Role | None:
        rights = info.context.verbs.rights
        return Role.of(await rights.save_role(info.context.actor, attributes.change()))

    @strawberry.mutation(description="Change a role for all who have it.")
    async def update_role(
        self, info: Info, id: strawberry.ID, attributes: RoleAttributes
    ) -> Role | None:
        rights = info.context.verbs.rights
        return Role.of(await rights.save_role(info.context.actor, attributes.change(), id))

    @strawberry.mutation
    async def delete_role(self, info: Info, id: strawberry.ID) -> Role | None:
        return Role.of(await info.context.verbs.rights.delete_role(info.context.actor, id))

    @strawberry.mutation(description="Give a role; nobody gives what they lack.")
    async def create_role_binding(
        self, info: Info, attributes: RoleBindingAttributes
    ) -> RoleBinding | None:
        rights = info.context.verbs.rights
        return RoleBinding.of(await rights.bind(info.context.actor, attributes.draft()))

    @strawberry.mutation(description="Take a role back; what it opened ends within seconds.")
    async def delete_role_binding(self, info: Info, id: strawberry.ID) -> RoleBinding | None:
        return RoleBinding.of(await info.context.verbs.rights.unbind(info.context.actor, id))

    @strawberry.mutation(description="Ask for a role for some minutes; another decides.")
    async def request_access(
        self, info: Info, role: str, scope: str, minutes: int, reason: str
    ) -> AccessRequest:
        context = info.context
        row = await context.verbs.requests.ask(context.actor, role, Scope(scope), minutes, reason)
        return await _request(context, row.id)

    @strawberry.mutation(description="Give what somebody else asked for, from now on.")
    async def approve_access(self, info: Info, id: strawberry.ID) -> AccessRequest:
        await info.context.verbs.requests.approve(info.context.actor, id)
        return await _request(info.context, id)

    @strawberry.mutation
    async def refuse_access(self, info: Info, id: strawberry.ID) -> AccessRequest:
        await info.context.verbs.requests.refuse(info.context.actor, id)
        return await _request(info.context, id)

    @strawberry.mutation(description="Take back what was approved; open sessions end.")
    async def revoke_access(self, info: Info, id: strawberry.ID) -> AccessRequest:
        await info.context.verbs.requests.revoke(info.context.actor, id)
        return await _request(info.context, id)


async def _with_bindings(context: Context, row: ProjectRow) -> Project:
    return Project.of(row, await context.verbs.rights.bindings(context.actor, row.target.scope))


async def _request(context: Context, id: str) -> AccessRequest:
    return AccessRequest.of(*await context.verbs.requests.get(context.actor, id))
