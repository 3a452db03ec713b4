"""Finds repositories by the names that commands accept."""

from core.errors import NotFound
from towline.cli.repositories.generated import (
    HelmRepository,
    Repository,
    create_repository,
    helm_repository,
    repository,
)
from towline.cli.shell.output import say
from towline.cli.shell.session import first_found, found_or_none
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


def find_or_add_repository(api: GraphQLApi, name: str) -> Repository:
    """Finds a repository by URL or id; adds an unknown URL, without credentials."""
    found = found_or_none(lambda: find_repository(api, name))
    if found is not None:
        return found
    if "://" not in name and "@" not in name:
        raise NotFound(f"could not find repository {name}")
    made = create_repository(api, {"url": name})
    say(f"added repository {name}")
    return made
