"""Loads projects of other rows, for all rows at once."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from controlplane.access.api.types import ProjectType
from controlplane.access.model.bindings import Project
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.authorization import DEFAULT_PROJECT
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Output
from controlplane.platform.graphql.resource_fields import Load


class MaybeInProject(Protocol):
    """A row that may have a project."""

    @property
    def project_id(self) -> str | None: ...


R = TypeVar("R", bound=MaybeInProject)
P = TypeVar("P", bound=Output)


class InProject(Protocol):
    """A row whose project a user may have named."""

    @property
    def project_id(self) -> str: ...
    @property
    def project_given(self) -> bool: ...


def shown_project(row: InProject, projects: Mapping[str, ProjectType]) -> ProjectType | None:
    """Returns the project of a row; None for the default project if no user named it.

    Plural's Terraform provider plans to remove a project that its configuration does not name, and
    fails if the API does not return one that it names.
    """
    is_shown = row.project_given or row.project_id != DEFAULT_PROJECT
    return projects.get(row.project_id) if is_shown else None


async def load_projects(context: Context, ids: Sequence[str | None]) -> dict[str, ProjectType]:
    """Returns projects by ID."""
    projects = await context[Projects].readable_by_id(
        context.actor, [project_id for project_id in ids if project_id]
    )
    return {id: ProjectType.of(row) for id, row in projects.items()}


async def projects_with_bindings(info: Info, rows: Sequence[Project]) -> list[ProjectType]:
    """Converts projects, with their users and groups."""
    context, scope = info.context, rows[0].target.scope if len(rows) == 1 else None
    bindings = await context[RoleBindings].of_resources(context.actor, scope)
    return [ProjectType.with_bindings(row, bindings) for row in rows]


def with_projects(output: type[P]) -> Load[R, P]:
    """Returns a conversion of rows whose published type has the field `project`."""

    async def load(info: Info, rows: Sequence[R]) -> Sequence[P]:
        projects = await load_projects(info.context, [row.project_id for row in rows])
        return [output.of(row, project=projects.get(row.project_id or "")) for row in rows]

    return load
