"""Finds projects by the names that commands accept."""

from towline.cli.projects.generated import Project, project
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_project(api: GraphQLApi, name: str) -> Project:
    """Finds a project by name."""
    return first_found(f"project {name}", lambda: project(api, name=name))
