"""Finds repositories by the names that commands accept."""

from core.errors import NotFound
from towline.cli.repositories.generated import (
    HelmRepository,
    OciRepository,
    Repository,
    helm_repository,
    oci_repository,
    repository,
)
from towline.cli.shell.session import first_found, found_or_none, not_found
from towline.operations import GraphQLApi

OCI_SCHEME = "oci://"


def find_repository(api: GraphQLApi, name: str) -> Repository:
    """Finds a repository by URL, else by id."""
    return first_found(
        f"repository {name}",
        lambda: repository(api, url=name),
        lambda: repository(api, id=name),
        listed_by="repos list",
    )


def find_helm_repository(api: GraphQLApi, name: str) -> HelmRepository:
    """Finds a chart repository by URL, else by id."""
    return first_found(
        f"Helm repository {name}",
        lambda: helm_repository(api, url=name),
        lambda: helm_repository(api, id=name),
        listed_by="helm-repos list",
    )


def find_oci_repository(api: GraphQLApi, name: str) -> OciRepository:
    """Finds an OCI repository by URL, else by id."""
    return first_found(
        f"OCI repository {name}",
        lambda: oci_repository(api, url=name),
        lambda: oci_repository(api, id=name),
        listed_by="oci-repos list",
    )


def find_folder_repository(api: GraphQLApi, name: str) -> str:
    """Finds a Git or OCI repository by URL or id; returns its id."""
    if name.startswith(OCI_SCHEME):
        return find_oci_repository(api, name)["id"]
    repository = found_or_none(lambda: find_repository(api, name))
    if repository is not None:
        return repository["id"]
    oci_repository = found_or_none(lambda: find_oci_repository(api, name))
    if oci_repository is None:
        raise NotFound(not_found(f"repository {name}", "repos list"))
    return oci_repository["id"]


def find_known_repository(api: GraphQLApi, name: str) -> str | None:
    """Finds a Git or OCI repository like `find_folder_repository`; returns None for an unknown URL.

    NotFound: the name is neither known nor a URL.
    """
    existing = found_or_none(lambda: find_folder_repository(api, name))
    if existing is None and "://" not in name and "@" not in name:
        hint = "; to add a new one, give its URL"
        raise NotFound(not_found(f"repository {name}", "repos list") + hint)
    return existing
