"""Helm repositories and OCI registries in the API."""

import strawberry

from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.repositories.api.fields import RepositoryFields
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from core.spec.renderers import chart_of_ref
from core.spec.source import RepositoryKind

REGISTRY_FIELDS = frozenset(
    ("id", "url", "health", "error", "project_id", "inserted_at", "updated_at", "polled_at")
)
"""Published fields of all repositories in registries."""
REGISTRY_ATTRIBUTES = frozenset(("url", "username", "password", "project_id"))
"""Fields of all repositories in registries that clients set."""


@strawberry.type
class HelmChart:
    """A chart in use and its newest matching version."""

    chart: str
    """Name of the chart."""
    range: str
    """Version range that services follow."""
    version: str
    """Newest version in the range."""
    digest: str
    """SHA-256 digest of the chart archive."""


@output(Repository, only=REGISTRY_FIELDS)
class HelmRepository(Output[Repository]):
    """A Helm repository or OCI registry. A failed poll keeps the last known versions."""

    url: str
    """URL: `https://…` or `oci://…`."""
    has_credentials: bool = computed(lambda row: row.auth_method is not None)
    """True if credentials are stored."""
    charts: list[HelmChart] = computed(
        lambda row: [
            HelmChart(
                chart=chart[0],
                range=chart[1],
                version=commit.subject.rpartition(" ")[2],
                digest=f"sha256:{commit.sha}",
            )
            for ref, commit in sorted(row.commits.items())
            if (chart := chart_of_ref(ref)) is not None
        ]
    )
    """Charts that services use."""


@draft(RepositoryChange, only=REGISTRY_ATTRIBUTES)
class HelmRepositoryAttributes(Draft[RepositoryChange]):
    """Fields of a Helm repository. A field that is null or absent stays as it is."""

    url: str | None = None
    """URL: `https://…` or `oci://…`. Required on creation."""
    password: str | None = None
    """Password or token. Never returned. An empty string removes it."""


_HELM = RepositoryFields(RepositoryKind.HELM, HelmRepository, HelmRepositoryAttributes)


@strawberry.type
class HelmRepositoryQuery:
    helm_repository = _HELM.get
    """A Helm repository, by ID or URL."""
    helm_repositories = _HELM.page
    """Helm repositories.

    Args:
        q: Text to search for in URLs. Limit: 200 characters.
    """


@strawberry.type
class HelmRepositoryMutation:
    create_helm_repository = _HELM.create
    """Adds a Helm repository or OCI registry."""
    update_helm_repository = _HELM.update
    """Updates a Helm repository."""
    delete_helm_repository = _HELM.delete
    """Removes a Helm repository. Fails with CONFLICT while services use it."""
    sync_helm_repository = _HELM.sync
    """Polls a Helm repository now."""
