"""Resolves ids to permission targets, and users to their grants."""

from collections.abc import Iterable
from datetime import datetime

from controlplane.access.model.bindings import Binding, Project, SubjectKind
from controlplane.access.model.users import Group, User, UserKind
from controlplane.access.operations.tagged_clusters import selected_scopes
from controlplane.access.ports import (
    GroupStore,
    MembershipStore,
    ProjectStore,
    ResourceDirectory,
    RoleBindingStore,
    RoleStore,
)
from controlplane.authorization import (
    BUILT_IN,
    DEFAULT_PROJECT,
    INSTALLATION,
    Actor,
    ActorKind,
    Grant,
    Policy,
    Resource,
    ResourceKind,
    Role,
    Scope,
    Verb,
    require,
)
from controlplane.authorization.resources import scope_of
from controlplane.platform.context import Change
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from core.errors import Conflict, Invalid, NotFound


async def target_of(
    tx: Transaction, kind: ResourceKind, id: str, *, locked: bool = False
) -> Resource:
    """The resource of this kind and id; without an id, all of them. NotFound: it does not exist.

    `locked` locks its row until the transaction ends. Permission checks must not lock rows, since
    they run in the middle of other transactions and in any order.
    """
    if not id:
        return Resource.whole(kind)
    return found(await tx[ResourceDirectory].find(kind, id, locked=locked), kind)


async def scope_target(tx: Transaction, scope: Scope, *, locked: bool = False) -> Resource:
    """The target of a scope. NotFound: it does not exist. Invalid: not a scope."""
    kind, id = _parse_scope(scope)
    return await target_of(tx, kind, id, locked=locked)


async def scope_targets(tx: Transaction, scopes: Iterable[Scope]) -> dict[Scope, Resource]:
    """The targets of scopes, without those that do not exist."""
    targets: dict[Scope, Resource] = {}
    ids: dict[ResourceKind, set[str]] = {}
    for scope in scopes:
        try:
            kind, id = _parse_scope(scope)
        except Invalid:
            continue
        if id:
            ids.setdefault(kind, set()).add(id)
        else:
            targets[scope] = Resource.whole(kind)
    for kind, kind_ids in ids.items():
        found = await tx[ResourceDirectory].find_each(kind, kind_ids)
        targets |= {scope_of(kind, id): target for id, target in found.items()}
    return targets


def _parse_scope(scope: Scope) -> tuple[ResourceKind, str]:
    """The kind and id of a scope; the installation has no id. Invalid: not a scope."""
    if scope == INSTALLATION:
        return ResourceKind.INSTALLATION, ""
    kind, _, id = scope.partition(":")
    if kind not in ("project", "cluster", "service", "pipeline", "repository") or not id:
        raise Invalid(
            f"{scope[:80]!r} is not a scope: use installation, or for example project:ID",
            field="scope",
        )
    return ResourceKind(kind), id


async def project_for(tx: Change, kind: ResourceKind, project_id: str | None) -> str:
    """The ID of the project for a new resource of this kind, by default the default project.

    Authorizes the creation. NotFound: the actor may not see the project. Forbidden: it may not
    create such resources there.
    """
    if project_id:
        await check_project(tx, tx.actor, project_id)
    project_id = project_id or DEFAULT_PROJECT
    tx.authorize(Verb.WRITE, Resource.within(kind, project_id))
    return project_id


async def check_project(tx: Transaction, actor: Actor, project_id: str) -> None:
    """NotFound: the project does not exist, or the actor may not see it."""
    with reference("projectId", project_id):
        require(actor, Verb.READ, (await find_project(tx, project_id)).target)


def check_not_moved(title: str, project_id: str, new_project_id: str | None) -> None:
    """Conflict: a change of a resource names another project. None names no project.

    An empty `project_id` is the installation.
    """
    if new_project_id and new_project_id != project_id:
        raise Conflict(
            f"{title} cannot be moved to another project: create it there, then delete this one"
        )


async def find_project(tx: Transaction, id: str | None, name: str | None = None) -> Project:
    """The project with this id or name. NotFound: it does not exist."""
    return found(await tx[ProjectStore].by_id_or_name(id, name), ResourceKind.PROJECT)


async def find_role(tx: Transaction, name: str) -> Role:
    """The role with this id or name, built-in ones included. NotFound: it does not exist."""
    role = BUILT_IN.get(name) or await tx[RoleStore].get(name) or await tx[RoleStore].by_name(name)
    if role is None:
        raise NotFound(f"role {name[:80]!r} does not exist")
    return role


async def roles_of(tx: Transaction, bindings: Iterable[Binding]) -> dict[str, Role]:
    """The built-in roles, and the custom roles of bindings, by id."""
    custom_ids = {binding.role_id for binding in bindings} - BUILT_IN.keys()
    custom_roles = await tx[RoleStore].by_ids(custom_ids) if custom_ids else []
    return {**BUILT_IN, **{role.id: role for role in custom_roles}}


async def grants_of(
    tx: Transaction, user: User, now: datetime, *, in_whole_scopes: bool = False
) -> tuple[Grant, ...]:
    """All grants of a user at this moment, direct and through groups.

    `in_whole_scopes` is meant as in `grants_from_bindings`.
    """
    subjects = await _subject_names(tx, user)
    bindings = await tx[RoleBindingStore].of_subjects(list(subjects))
    return await grants_from_bindings(tx, bindings, now, subjects, in_whole_scopes=in_whole_scopes)


async def actor_of_user(tx: Transaction, user: User, now: datetime) -> Actor:
    """The actor of an account, with the permissions that it has at this moment."""
    is_person = user.kind is UserKind.PERSON
    return Actor(
        ActorKind.USER if is_person else ActorKind.SERVICE_ACCOUNT,
        id=user.id,
        name=user.name,
        email=user.email,
        policy=Policy(await grants_of(tx, user, now)),
    )


async def groups_of(tx: Transaction, user_id: str, *, is_person: bool) -> list[Group]:
    """The groups of a user; people are also in the groups that contain everyone."""
    joined = {membership.group_id for membership in await tx[MembershipStore].of_user(user_id)}
    groups = await tx[GroupStore].by_ids(joined) if joined else []
    everyone = await tx[GroupStore].for_everyone() if is_person else []
    return groups + [group for group in everyone if group.id not in joined]


async def grants_from_bindings(
    tx: Transaction,
    bindings: list[Binding],
    now: datetime,
    subjects: dict[str, str],
    *,
    in_whole_scopes: bool = False,
) -> tuple[Grant, ...]:
    """The grants of unexpired role bindings; `subjects` holds display names by subject id.

    With `in_whole_scopes`, a binding that selects clusters counts in its whole scope. Who gives
    somebody its role gives it in clusters that join later, too.
    """
    live = [binding for binding in bindings if binding.is_live(now)]
    roles = await roles_of(tx, live)
    scopes = {} if in_whole_scopes else await selected_scopes(tx, live)
    return tuple(
        Grant(
            roles[binding.role_id],
            scope,
            binding.id,
            binding.expires_at,
            _grant_origin(binding, subjects),
        )
        for binding in live
        if binding.role_id in roles
        for scope in scopes.get(binding.id, (binding.scope,))
    )


async def _subject_names(tx: Transaction, user: User) -> dict[str, str]:
    """The user and its groups, by id, with their display names."""
    groups = await groups_of(tx, user.id, is_person=user.kind is UserKind.PERSON)
    return {user.id: user.email, **{group.id: f"group {group.name}" for group in groups}}


def _grant_origin(binding: Binding, subjects: dict[str, str]) -> str:
    subject = subjects.get(binding.subject_id, binding.subject_id)
    holder = subject if binding.subject_kind is SubjectKind.GROUP else "directly"
    until = f" until {binding.expires_at:%FT%TZ}" if binding.expires_at else ""
    grantor = f", given by {binding.given_by}" if binding.given_by else ""
    return f"{holder}{grantor}{until}{binding.where}"
