"""Projects: scopes for resources and role bindings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from controlplane.access.model.bindings import Project
from controlplane.access.operations.binding_subjects import RoleSubjects, change_subjects
from controlplane.access.ports import (
    FenceEffects,
    ProjectStore,
    ResourceDirectory,
    RoleBindingStore,
)
from controlplane.authorization import Actor, Fence, Resource, ResourceKind, Verb, require_member
from controlplane.platform.context import Change, NamedOperations, OperationContext
from controlplane.platform.limits import check_length
from controlplane.platform.names import check_text, join_names
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict

_MAX_DESCRIPTION_LENGTH = 1000
_MAX_NAMED = 20
_DENIES_ALL = Fence()
_WRITE_PROJECTS = (Verb.WRITE, Resource.whole(ResourceKind.PROJECT))
_ALL_PROJECTS = Resource.whole(ResourceKind.PROJECT)


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """Changes to a project and its role bindings. None leaves a field unchanged."""

    name: str | None = None
    """Unique name."""
    description: str | None = None
    """Free text."""
    subjects: RoleSubjects = field(default_factory=dict)
    fence: Fence | None = None
    """The whole fence. A new project without one denies every service."""
    confirm_fence: bool = False
    """True applies a fence that leaves existing services outside. They keep their objects, and get
    no new ones. Default: false."""

    def applied(self, project: Project) -> Project:
        """The changed project. Invalid: a value is not allowed."""
        if self.name or not project.name:
            project = replace(project, name=check_text(self.name or "", "name"))
        if self.description is not None:
            description = check_length(self.description, "description", _MAX_DESCRIPTION_LENGTH)
            project = replace(project, description=description)
        if self.fence is not None:
            project = replace(project, fence=self.fence.checked())
        return project


@retry_operations
class Projects(NamedOperations[Project]):
    """Operations on projects."""

    kind = ResourceKind.PROJECT
    noun = "project"
    port = ProjectStore

    def __init__(
        self, context: OperationContext, effects: FenceEffects, fence: Fence = _DENIES_ALL
    ) -> None:
        """`fence` is that of new projects without one."""
        self._context = context
        self._effects = effects
        self._fence = fence

    async def readable_by_id(self, actor: Actor, ids: Sequence[str]) -> dict[str, Project]:
        """The projects that the actor may read, by id."""
        require_member(actor)
        if not ids:
            return {}
        async with self._context.store.read() as tx:
            rows = await tx[ProjectStore].by_ids(set(ids))
        return {row.id: row for row in rows if actor.may(Verb.READ, row.target)}

    async def create(self, actor: Actor, change: ProjectChange) -> Project:
        now = self._context.clock.now()
        async with self._context.change(actor, "createProject", _WRITE_PROJECTS) as tx:
            project = change.applied(
                Project(self._context.new_id(), "", now, now, fence=self._fence)
            )
            await self._check_name(tx, project.name)
            await tx[ProjectStore].add(project)
            tx.audit(project.name, project.id)
            await change_subjects(tx, project.target, change.subjects, is_new=True)
        return project

    async def update(self, actor: Actor, id: str, change: ProjectChange) -> Project:
        async with self._context.change(actor, "updateProject") as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            if change.fence is not None:
                # Who may change a project must not widen its fence.
                tx.authorize(Verb.ADMINISTER, _ALL_PROJECTS)
            project = replace(change.applied(before), updated_at=self._context.clock.now())
            await tx[ProjectStore].put(project)
            if project.fence != before.fence:
                await self._apply_fence(tx, project, confirmed=change.confirm_fence)
            tx.audit(project.name, id)
            await change_subjects(tx, project.target, change.subjects)
        return project

    async def _apply_fence(self, tx: Change, project: Project, *, confirmed: bool) -> None:
        refused = await self._effects.refused_services(tx, project)
        if refused and not confirmed:
            raise Conflict(
                f"this fence leaves services of project {project.name!r} outside: "
                f"{join_names(refused, _MAX_NAMED)}. Nothing "
                "was changed. To apply it anyway, confirm it (--confirm; in the API confirmFence): "
                "these services keep their objects, and get no new ones"
            )
        await self._effects.apply(tx, project)

    async def delete(self, actor: Actor, id: str) -> Project:
        """Deletes an empty project with its role bindings. Conflict: it contains resources."""
        async with self._context.change(actor, "deleteProject") as tx:
            project = await self._find(tx, id)
            tx.authorize(Verb.ADMINISTER, project.target)
            await _check_empty(tx, project)
            for binding in await tx[RoleBindingStore].in_scopes(project.target.scope):
                await tx[RoleBindingStore].remove(binding.id)
            await tx[ProjectStore].remove(id)
            tx.audit(project.name, id)
        return project


async def _check_empty(tx: Transaction, project: Project) -> None:
    if project.default:
        raise Conflict(
            "the default project cannot be deleted: it contains resources without a project"
        )
    if contents := await tx[ResourceDirectory].project_contents(project.id):
        raise Conflict(f"project {project.name!r} still has {contents}")
