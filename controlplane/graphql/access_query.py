"""What can be asked about people, projects, roles and rights."""

import strawberry

from controlplane.domain.access import Kind, Scope, Verb
from controlplane.graphql import relay
from controlplane.graphql.access import (
    AccessHolder,
    AccessReason,
    AccessRequest,
    Group,
    Project,
    Role,
    RoleBinding,
    TrustRule,
)
from controlplane.graphql.context import Info
from controlplane.graphql.users import AccessToken, User


@strawberry.type
class AccessQuery:
    @strawberry.field(description="The caller.")
    async def me(self, info: Info) -> User:
        people, actor = info.context.verbs.people, info.context.actor
        row = await info.context.verbs.identity.me(actor)
        return User.of(row, (await people.roles_everywhere(actor, [row])).get(row.id))

    @strawberry.field(description="Every role that the caller has, where, and why.")
    async def my_access(self, info: Info) -> list[AccessReason]:
        return [
            AccessReason(role=g.role.name, scope=g.scope, why=g.why, expires_at=g.expires_at)
            for g in info.context.actor.policy.grants
        ]

    @strawberry.field(description="The caller's own groups.")
    async def my_groups(self, info: Info) -> list[Group]:
        rows = await info.context.verbs.people.groups_of(info.context.actor)
        return [Group.of(row) for row in rows]

    @strawberry.field(description="Where the caller is signed in.")
    async def sessions(self, info: Info) -> list[AccessToken]:
        rows = await info.context.verbs.identity.sessions(info.context.actor)
        return [AccessToken.of(row) for row in rows]

    @strawberry.field(description="The caller's own tokens; never their secrets.")
    async def access_tokens(self, info: Info) -> list[AccessToken]:
        rows = await info.context.verbs.identity.tokens(info.context.actor)
        return [AccessToken.of(row) for row in rows]

    @strawberry.field(description="People and service accounts of this installation.")
    async def users(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[User]:
        asked = relay.query(first, after, q)
        people, actor = info.context.verbs.people, info.context.actor
        page = await people.users(actor, asked)
        roles = await people.roles_everywhere(actor, page.items)
        nodes = [User.of(row, roles.get(row.id)) for row in page.items]
        return relay.connection(nodes, page.more, asked, lambda node: node.id)

    @strawberry.field(description="A user by e-mail address.")
    async def user(self, info: Info, email: str) -> User | None:
        return User.of(await info.context.verbs.people.user(info.context.actor, email))

    @strawberry.field
    async def groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[Group]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.people.groups(info.context.actor, asked)
        return relay.listed(page, asked, Group.of)

    @strawberry.field(description="A group by name.")
    async def group(self, info: Info, name: str) -> Group | None:
        return Group.of(await info.context.verbs.people.group(info.context.actor, name))

    @strawberry.field(description="The users in a group.")
    async def group_members(self, info: Info, group_id: strawberry.ID) -> list[User]:
        rows = await info.context.verbs.people.members(info.context.actor, group_id)
        return [User.of(row) for row in rows]

    @strawberry.field
    async def projects(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[Project]:
        asked = relay.query(first, after, q)
        verbs, actor = info.context.verbs, info.context.actor
        page = await verbs.projects.page(actor, asked)
        bindings = await verbs.rights.bindings(actor)
        nodes = [Project.of(row, bindings) for row in page.items]
        return relay.connection(nodes, page.more, asked, lambda node: node.id)

    @strawberry.field(description="A project by id or name.")
    async def project(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> Project | None:
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.projects.get(actor, id, name)
        return Project.of(row, await verbs.rights.bindings(actor, row.target.scope))

    @strawberry.field(description="All roles, built-in ones first.")
    async def roles(self, info: Info) -> list[Role]:
        return [Role.of(row) for row in await info.context.verbs.rights.roles(info.context.actor)]

    @strawberry.field(description="A role by id or name.")
    async def role(self, info: Info, name: str) -> Role | None:
        return Role.of(await info.context.verbs.rights.role(info.context.actor, name))

    @strawberry.field(description="Who has which role where, as far as the caller may know.")
    async def role_bindings(self, info: Info, scope: str | None = None) -> list[RoleBinding]:
        rights = info.context.verbs.rights
        views = await rights.bindings(info.context.actor, Scope(scope) if scope else None)
        return [RoleBinding.of(view) for view in views]

    @strawberry.field(description="Whether the caller may do it; without an id, everywhere.")
    async def can(
        self, info: Info, verb: Verb, kind: Kind, id: strawberry.ID | None = None
    ) -> bool:
        return await info.context.verbs.rights.can(info.context.actor, verb, kind, id or "")

    @strawberry.field(description="Everybody who may do it, and why.")
    async def who_can(
        self, info: Info, verb: Verb, kind: Kind, id: strawberry.ID | None = None
    ) -> list[AccessHolder]:
        rights = info.context.verbs.rights
        holders = await rights.who_can(info.context.actor, verb, kind, id or "")
        return [AccessHolder.of(one) for one in holders]

    @strawberry.field(description="The caller's requests, and those that they could decide.")
    async def access_requests(self, info: Info) -> list[AccessRequest]:
        found = await info.context.verbs.requests.all(info.context.actor)
        return [AccessRequest.of(*one) for one in found]

    @strawberry.field(description="Whose tokens are exchanged for those of service accounts.")
    async def trust_rules(self, info: Info) -> list[TrustRule]:
        rows = await info.context.verbs.accounts.trust_rules(info.context.actor)
        return [TrustRule.of(row) for row in rows]
