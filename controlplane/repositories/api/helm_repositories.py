"""Helm repositories and OCI registries in the API."""

import strawberry

from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.repositories.api.resolvers import RepositoryResolvers
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


_HELM = RepositoryResolvers(RepositoryKind.HELM, HelmRepository)


@strawberry.type
class HelmRepositoryQuery:
    @strawberry.field
    async def helm_repository(
        self, info: Info, id: strawberry.ID | None = None, url: str | None = None
    ) -> HelmRepository | None:
        """A Helm repository, by ID or URL.

        Args:
            id: ID of the repository.
            url: Exact URL. Used without `id`.
        """
        return await _HELM.get(info, id, url)

    @strawberry.field
    async def helm_repositories(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[HelmRepository]:
        """Helm repositories.

        Args:
            q: Text to search for in URLs. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q, labels=labels)
        return await _HELM.page(info, asked)


@strawberry.type
class HelmRepositoryMutation:
    @strawberry.mutation
    async def create_helm_repository(
        self, info: Info, attributes: HelmRepositoryAttributes
    ) -> HelmRepository | None:
        """Adds a Helm repository or OCI registry.

        Args:
            attributes: Fields of the repository.
        """
        return await _HELM.create(info, attributes)

    @strawberry.mutation
    async def update_helm_repository(
        self, info: Info, id: strawberry.ID, attributes: HelmRepositoryAttributes
    ) -> HelmRepository | None:
        """Updates a Helm repository.

        Args:
            id: ID of the repository.
            attributes: Fields to change.
        """
        return await _HELM.update(info, id, attributes)

    @strawberry.mutation
    async def delete_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        """Removes a Helm repository. Fails with CONFLICT while services use it.

        Args:
            id: ID of the repository.
        """
        return await _HELM.delete(info, id)

    @strawberry.mutation
    async def sync_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        """Polls a Helm repository now.

        Args:
            id: ID of the repository.
        """
        return await _HELM.sync(info, id)
