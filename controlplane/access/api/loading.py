"""Loads projects of other rows, for all rows at once."""

from collections.abc import Sequence

from controlplane.access.api.types import ProjectType
from controlplane.access.operations.projects import Projects
from controlplane.platform.graphql.context import Context


async def projects_of(context: Context, ids: Sequence[str | None]) -> dict[str, ProjectType]:
    """Returns projects by ID."""
    found = await context[Projects].of(
        context.actor, [project_id for project_id in ids if project_id]
    )
    return {id: ProjectType.of(row) for id, row in found.items()}
