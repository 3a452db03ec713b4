"""Finds repositories by the names that commands accept."""

from towline.cli.repositories.generated import (
    HelmRepository,
    Repository,
    helm_repository,
    repository,
)
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_repository(api: GraphQLApi, name: str) -> Repository:
    """Finds a repository by URL, else by id."""
    return first_found(
        f"repository {name}", lambda: repository(api, url=name), lambda: repository(api, id=name)
    )


def find_helm_repository(api: GraphQLApi, name: str) -> HelmRepository:
    """Finds a chart repository by URL, else by id."""
    return first_found(
        f"Helm repository {name}",
        lambda: helm_repository(api, url=name),
        lambda: helm_repository(api, id=name),
    )
