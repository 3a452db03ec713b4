"""Loads projects of other rows, for all rows at once."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from controlplane.access.api.types import ProjectType
from controlplane.access.operations.projects import Projects
from controlplane.authorization import DEFAULT_PROJECT
from controlplane.platform.graphql.context import Context


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


async def projects_of(context: Context, ids: Sequence[str | None]) -> dict[str, ProjectType]:
    """Returns projects by ID."""
    found = await context[Projects].of(
        context.actor, [project_id for project_id in ids if project_id]
    )
    return {id: ProjectType.of(row) for id, row in found.items()}
