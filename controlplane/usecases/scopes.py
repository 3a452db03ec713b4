"""From ids that people give to targets: what stands where, and what an actor holds."""

from datetime import datetime

from controlplane.domain.access import (
    BUILT_IN,
    INSTALLATION,
    Actor,
    Grant,
    Kind,
    Role,
    Scope,
    Target,
    Verb,
    require,
)
from controlplane.domain.bindings import Binding, Project, SubjectKind
from controlplane.domain.people import Group, User, UserKind
from controlplane.ports import ANY, Transaction
from fleet.errors import Invalid, NotFound


async def target_of(tx: Transaction, kind: Kind, id: str, *, held: bool = False) -> Target:
    """The thing of this kind and id; without an id, all of them. NotFound: there is none.

    `held`: nobody else writes it until the transaction ends. Rights of others are looked up in
    the middle of a transaction, in whichever order they were given, and hold nothing.
    """
    if not id:
        return Target.whole(kind)
    rows = {
        Kind.PROJECT: tx.projects,
        Kind.CLUSTER: tx.clusters,
        Kind.SERVICE: tx.services,
        Kind.PIPELINE: tx.pipelines,
        Kind.REPOSITORY: tx.repositories,
        Kind.SECRET: tx.secrets,
        Kind.USER: tx.users,
        Kind.GROUP: tx.groups,
    }.get(kind)
    if rows is None:
        return Target.whole(kind, id)
    deleted = {"deleted_at": ANY} if kind is Kind.SERVICE else {}
    row = await (rows.find if held else rows.peek)(id=id, **deleted)
    if row is None:
        raise NotFound
    return row.target


async def scope_target(tx: Transaction, scope: Scope, *, held: bool = False) -> Target:
    """What a scope names. NotFound: it does not exist. Invalid: it is no scope."""
    if scope == INSTALLATION:
        return Target.whole(Kind.INSTALLATION)
    kind, _, id = scope.partition(":")
    if kind not in ("project", "cluster", "service", "pipeline", "repository") or not id:
        raise Invalid(f"{scope[:80]!r} is not installation or like project:ID", field="scope")
    return await target_of(tx, Kind(kind), id, held=held)


async def project_for(
    tx: Transaction, actor: Actor, kind: Kind, project_id: str | None
) -> str | None:
    """The project in which the actor makes a thing of a kind; None stays the default one."""
    if project_id:
        project = await find_project(tx, project_id)
        if not actor.may(Verb.READ, project.target):
            raise NotFound
    require(actor, Verb.WRITE, Target.within(kind, project_id))
    return project_id or None


async def find_project(tx: Transaction, id: str | None, name: str | None = None) -> Project:
    """The project with this id or name. NotFound: there is none."""
    project = await tx.projects.get(id) if id else await tx.projects.find(name=name or "")
    if project is None:
        raise NotFound
    return project


async def find_role(tx: Transaction, name: str) -> Role:
    """A role by id or name, built-in ones included. NotFound: there is none."""
    role = BUILT_IN.get(name) or await tx.roles.get(name) or await tx.roles.find(name=name)
    if role is None:
        raise NotFound(f"there is no role {name[:80]!r}")
    return role


async def grants_of(tx: Transaction, user: User, now: datetime) -> tuple[Grant, ...]:
    """All that bindings give to a user, themselves or by groups, at this moment."""
    subjects = await _subjects(tx, user)
    bindings = await tx.bindings.select(subject_id=list(subjects))
    return await as_grants(tx, bindings, now, subjects)


async def groups_of(tx: Transaction, user_id: str, *, is_person: bool) -> list[Group]:
    """The groups that a user is in; people are in those, too, that everybody is in."""
    joined = {membership.group_id for membership in await tx.memberships.select(user_id=user_id)}
    groups = await tx.groups.select(id=joined) if joined else []
    return groups + (await tx.groups.select(everyone=True) if is_person else [])


async def as_grants(
    tx: Transaction, bindings: list[Binding], now: datetime, subjects: dict[str, str]
) -> tuple[Grant, ...]:
    """Bindings that have not ended, with their roles; `subjects` says whose, for people."""
    live = [
        binding for binding in bindings if binding.expires_at is None or binding.expires_at > now
    ]
    custom = {binding.role_id for binding in live} - BUILT_IN.keys()
    found = await tx.roles.select(id=custom) if custom else []
    roles = {**BUILT_IN, **{role.id: role for role in found}}
    return tuple(
        Grant(
            roles[binding.role_id],
            binding.scope,
            binding.id,
            binding.expires_at,
            _why(binding, subjects),
        )
        for binding in live
        if binding.role_id in roles
    )


async def _subjects(tx: Transaction, user: User) -> dict[str, str]:
    """The user and its groups, by id, with what each is for people."""
    groups = await groups_of(tx, user.id, is_person=user.kind is UserKind.PERSON)
    return {user.id: user.email, **{group.id: f"group {group.name}" for group in groups}}


def _why(binding: Binding, subjects: dict[str, str]) -> str:
    subject = subjects.get(binding.subject_id, binding.subject_id)
    whose = subject if binding.subject_kind is SubjectKind.GROUP else "directly"
    until = f" until {binding.expires_at:%FT%TZ}" if binding.expires_at else ""
    given = f", given by {binding.given_by}" if binding.given_by else ""
    return f"{whose}{given}{until}"
