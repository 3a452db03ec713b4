"""Role bindings: each grant is checked against the policy of its grantor, who cannot grant more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import Group, User
from controlplane.access.operations.binding_subjects import RoleSubjects, change_subjects
from controlplane.access.operations.delegation import require_permissions_of_role
from controlplane.access.operations.scopes import (
    find_role,
    roles_of,
    scope_target,
    scope_targets,
)
from controlplane.access.operations.tagged_clusters import check_cluster_tags
from controlplane.access.ports import GroupStore, RoleBindingStore, UserStore
from controlplane.authorization import (
    Actor,
    Resource,
    ResourceKind,
    Role,
    Scope,
    Verb,
)
from controlplane.platform.context import ACCESS, Change, StoreOperations
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.limits import check_length
from controlplane.platform.names import check_label
from controlplane.platform.ports import ReadableRows, Transaction
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Invalid, NotFound

T = TypeVar("T")
_MAX_REASON_LENGTH = 1000
_MAX_BINDINGS_SHOWN = 5000
_BINDINGS_BATCH = 1000


@dataclass(frozen=True, slots=True)
class BindingDraft:
    """A role binding as a user defines it; the subject by id, address or name."""

    role: str
    """ID or name of the role."""
    scope: Scope
    """`installation`, or a resource such as `project:ID`, `cluster:ID` or `service:ID`."""
    user: str | None = None
    """ID or e-mail address of the user."""
    group: str | None = None
    """ID or name of the group."""
    expires_at: datetime | None = None
    """Expiry time. Default: the binding is permanent."""
    reason: str = ""
    """Reason for the binding. Limit: 1,000 characters."""
    name: str | None = None
    """Unique name. A binding with a name is a manifest, and stays after its expiry. Default:
    none."""
    cluster_tags: str = ""
    """Selector of cluster tags, such as `env=dev,team in (a,b)`, for a role that holds only in
    those clusters of the installation or of a project. Default: the role holds in the whole
    scope."""


@dataclass(frozen=True, slots=True)
class BindingView:
    """A role binding with its role, target and subject."""

    row: Binding
    role: Role
    target: Resource
    user: User | None = None
    """The user."""
    group: Group | None = None
    """The group."""
    expired: bool = False
    """True after the expiry: the binding grants nothing."""

    @property
    def id(self) -> str:
        """Returns the ID of the binding."""
        return self.row.id

    @property
    def subject(self) -> str:
        """Returns the address of the user, or the name of the group."""
        return self.user.email if self.user else self.group.name if self.group else ""


@retry_operations
class RoleBindings(StoreOperations):
    """Operations on role bindings."""

    async def all(
        self, actor: Actor, scope: Scope | None = None, labels: Sequence[LabelRequirement] = ()
    ) -> list[BindingView]:
        """Role bindings in scopes where the actor may read them, and the actor's own."""
        return await self._visible_bindings(actor, scope, _may_see, labels)

    async def of_resources(self, actor: Actor, scope: Scope | None = None) -> list[BindingView]:
        """Role bindings as fields of resources: all of a resource but declared ones, or none.

        Editors of a resource see who else has access. A part of a list would read as the whole.
        """
        return await self._visible_bindings(actor, scope, _may_see_as_field)

    async def _visible_bindings(
        self,
        actor: Actor,
        scope: Scope | None,
        is_visible: Callable[[Actor, BindingView], bool],
        labels: Sequence[LabelRequirement] = (),
    ) -> list[BindingView]:
        async with self._context.read(actor) as tx:
            bindings = tx[RoleBindingStore]
            rows = await (bindings.in_scopes(scope) if scope else bindings.all())
            if labels:
                matching_ids = {row.id for row in await bindings.with_labels(labels)}
                rows = [row for row in rows if row.id in matching_ids]
            visible: list[BindingView] = []
            for start in range(0, len(rows), _BINDINGS_BATCH):
                views = await self.views(tx, rows[start : start + _BINDINGS_BATCH])
                visible += (view for view in views if is_visible(actor, view))
                if len(visible) >= _MAX_BINDINGS_SHOWN:
                    break
        return visible[:_MAX_BINDINGS_SHOWN]

    async def views(self, tx: Transaction, rows: Sequence[Binding]) -> list[BindingView]:
        """Bindings with role, target and subject, without those of which a part was deleted."""
        now = self._context.clock.now()
        users = {row.id: row for row in await subjects_of(tx[UserStore], rows, SubjectKind.USER)}
        groups = {row.id: row for row in await subjects_of(tx[GroupStore], rows, SubjectKind.GROUP)}
        targets = await scope_targets(tx, {row.scope for row in rows})
        roles = await roles_of(tx, rows)
        return [
            BindingView(
                row,
                roles[row.role_id],
                targets[row.scope],
                users.get(row.subject_id),
                groups.get(row.subject_id),
                not row.is_live(now),
            )
            for row in rows
            if row.scope in targets and row.role_id in roles
        ]

    async def create(self, actor: Actor, draft: BindingDraft) -> BindingView:
        """Binds a role. Forbidden: the role has permissions in the scope that the actor lacks."""
        now = self._context.clock.now()
        async with self._context.change(actor, "createRoleBinding") as tx:
            row = await self._authorized_binding(tx, draft, self._context.new_id())
            # A declared binding may be over: an export contains it until its manifest is deleted.
            if draft.name is None and draft.expires_at is not None and draft.expires_at <= now:
                raise Invalid("must be in the future", field="expiresAt")
            if draft.name is not None:
                await self._claim_name(tx, check_label(draft.name, "name"))
            await tx[RoleBindingStore].add(row)
            return await self._audit_and_publish(tx, row)

    async def update(self, actor: Actor, id: str, draft: BindingDraft) -> BindingView:
        """Replaces all fields of a role binding, which gets the name of the draft.

        Forbidden: the old or new role has permissions in its scope that the actor lacks.
        """
        async with self._context.change(actor, "updateRoleBinding") as tx:
            before = await self._authorized_view(tx, id)
            if draft.name is None or before.row.name not in (None, draft.name):
                raise Conflict("the name of a binding cannot be changed")
            row = await self._authorized_binding(tx, draft, id)
            row = replace(row, inserted_at=before.row.inserted_at)
            if before.row.subject_id == actor.id:
                raise Conflict("you cannot change your own role: ask another administrator")
            await tx[RoleBindingStore].put(row)
            tx.publish(ACCESS, before.row.affected_user)
            return await self._audit_and_publish(tx, row)

    async def delete(self, actor: Actor, id: str) -> BindingView:
        """Deletes a role binding; what it opened ends within seconds."""
        async with self._context.change(actor, "deleteRoleBinding") as tx:
            view = await self._authorized_view(tx, id)
            row = view.row
            if row.subject_id == actor.id:
                raise Conflict("you cannot remove your own role: ask another administrator")
            await tx[RoleBindingStore].remove(id)
            tx.audit(view.subject, id, role=view.role.name, scope=row.scope)
            tx.publish(ACCESS, row.affected_user)
        return view

    async def set_subjects(self, actor: Actor, scope: Scope, roles: RoleSubjects) -> None:
        """Replaces the subjects of the given roles in a scope; other roles are unchanged.

        Forbidden: a changed role has permissions there that the actor lacks.
        """
        async with self._context.change(actor, "setBindings") as tx:
            kind, _, id = scope.partition(":")
            with reference(f"{kind}Id", id):
                target = await self._authorized_target(tx, scope)
            await change_subjects(tx, target, roles)

    async def _claim_name(self, tx: Change, name: str) -> None:
        """Conflict: another binding has the name. One whose scope is gone makes way."""
        existing = await tx[RoleBindingStore].by_name(name)
        if existing is None:
            return
        if await self.views(tx, [existing]):
            raise Conflict(f"role binding {name!r} already exists")
        await tx[RoleBindingStore].remove(existing.id)

    async def _authorized_binding(self, tx: Change, draft: BindingDraft, id: str) -> Binding:
        """The binding of a draft, after authorization for its role and scope."""
        target = await self._authorized_target(tx, draft.scope)
        role = await find_role(tx, draft.role)
        require_permissions_of_role(tx.actor, role, target, draft.expires_at)
        kind, subject = await _find_subject(tx, draft)
        return Binding(
            id,
            role.id,
            kind,
            subject,
            draft.scope,
            self._context.clock.now(),
            draft.expires_at,
            tx.actor.shown_name,
            check_length(draft.reason, "reason", _MAX_REASON_LENGTH),
            draft.name,
            cluster_tags=check_cluster_tags(draft.cluster_tags, draft.scope),
        )

    async def _audit_and_publish(self, tx: Change, row: Binding) -> BindingView:
        """Audits and publishes a new or changed binding, and returns its view."""
        (view,) = await self.views(tx, [row])
        until = f"{row.expires_at:%FT%TZ}" if row.expires_at else ""
        tx.audit(view.subject, row.id, role=view.role.name, scope=row.scope, until=until)
        tx.publish(ACCESS, row.affected_user)
        return view

    async def _authorized_view(self, tx: Change, id: str) -> BindingView:
        """The binding with this id, for actors who may change it."""
        row = await tx[RoleBindingStore].get(id)
        views = await self.views(tx, [row]) if row else []
        if not views:
            raise NotFound(kind=ResourceKind.BINDING)
        (view,) = views
        bindings = view.target.below(ResourceKind.BINDING)
        if not tx.actor.may(Verb.READ, bindings):
            raise NotFound(kind=ResourceKind.BINDING)
        tx.authorize(Verb.ADMINISTER, bindings)
        require_permissions_of_role(tx.actor, view.role, view.target, self._context.clock.now())
        return view

    async def _authorized_target(self, tx: Change, scope: Scope) -> Resource:
        """The target of a role binding, after authorization.

        NotFound: it does not exist, or the actor may not see it.
        """
        target = await scope_target(tx, scope, locked=True)
        if target.id and not tx.actor.may(Verb.READ, target):
            raise NotFound(kind=target.kind)
        tx.authorize(Verb.ADMINISTER, target.below(ResourceKind.BINDING))
        return target


def _may_see(actor: Actor, view: BindingView) -> bool:
    is_own = view.row.subject_id == actor.id
    return is_own or actor.may(Verb.READ, view.target.below(ResourceKind.BINDING))


def _may_see_as_field(actor: Actor, view: BindingView) -> bool:
    if view.row.name is not None:
        return False
    is_editor = actor.may(Verb.WRITE, view.target.below(ResourceKind.SERVICE))
    return is_editor or actor.may(Verb.READ, view.target.below(ResourceKind.BINDING))


async def _find_subject(tx: Transaction, draft: BindingDraft) -> tuple[SubjectKind, str]:
    """The subject of a draft. Invalid: none, or two. NotFound: it does not exist."""
    if bool(draft.user) == bool(draft.group):
        raise Invalid("specify either a user or a group", field="subject")
    if draft.user:
        user = await tx[UserStore].by_email(draft.user) or await tx[UserStore].get(draft.user)
        if user is None:
            raise NotFound(f"user {draft.user[:80]!r} does not exist")
        return SubjectKind.USER, user.id
    group_name = draft.group or ""
    group = await tx[GroupStore].by_name(group_name) or await tx[GroupStore].get(group_name)
    if group is None:
        raise NotFound(f"group {group_name[:80]!r} does not exist")
    return SubjectKind.GROUP, group.id


async def subjects_of(
    table: ReadableRows[T], rows: Sequence[Binding], kind: SubjectKind
) -> list[T]:
    """Returns the users or groups of role bindings."""
    ids = {row.subject_id for row in rows if row.subject_kind is kind}
    return await table.by_ids(ids) if ids else []
