"""Finds projects by the names that commands accept."""

from towline.cli.projects.generated import Project, project
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_project(api: GraphQLApi, name: str) -> Project:
    """Finds a project by name, else by id."""
    return first_found(
        f"project {name}",
        lambda: project(api, name=name),
        lambda: project(api, id=name),
        listed_by="projects list",
    )


def find_project_id(api: GraphQLApi, name: str | None) -> str | None:
    """Finds the id of a project by name or id. None: None is given."""
    return None if name is None else find_project(api, name)["id"]
