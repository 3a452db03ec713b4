"""Helm repositories and OCI registries in the API."""

from datetime import datetime

import strawberry

from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.repositories.model.repository import GitHealth, Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from core.spec.renderers import chart_of_ref
from core.spec.source import GitCredentials, RepositoryKind

_HELM = RepositoryKind.HELM


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


@strawberry.type
class HelmRepository:
    """A Helm repository or OCI registry. A failed poll keeps the last known versions."""

    id: strawberry.ID
    url: str
    """URL: `https://…` or `oci://…`."""
    health: GitHealth | None
    """Result of the last poll. Null before the first one."""
    error: str | None
    """Error of the last poll. Null if it succeeded."""
    has_credentials: bool
    """True if credentials are stored."""
    project_id: strawberry.ID | None
    """ID of the project. Null if none was set."""
    inserted_at: datetime
    updated_at: datetime
    polled_at: datetime | None
    """Time of the last poll."""
    charts: list[HelmChart]
    """Charts that services use."""

    @classmethod
    def of(cls, row: Repository) -> "HelmRepository":
        found = [(chart_of_ref(ref), commit) for ref, commit in sorted(row.commits.items())]
        return cls(
            id=strawberry.ID(row.id),
            url=row.url,
            health=row.health,
            error=row.error,
            has_credentials=row.auth_method is not None,
            project_id=strawberry.ID(row.project_id) if row.project_id else None,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            polled_at=row.polled_at,
            charts=[
                HelmChart(
                    chart=named[0],
                    range=named[1],
                    version=commit.subject.rpartition(" ")[2],
                    digest=f"sha256:{commit.sha}",
                )
                for named, commit in found
                if named is not None
            ],
        )


@strawberry.input
class HelmRepositoryAttributes:
    """Fields of a Helm repository. A field that is null or absent stays as it is."""

    url: str | None = None
    """URL: `https://…` or `oci://…`. Required on creation."""
    username: str | None = None
    """Username."""
    password: str | None = None
    """Password or token. Never returned. An empty string removes it."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the default project."""

    def change(self) -> RepositoryChange:
        credentials = GitCredentials(username=self.username, password=self.password)
        return RepositoryChange(self.url, credentials, project_id=self.project_id or None)


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
        context = info.context
        return HelmRepository.of(
            await context[RepositoryOperations].get(info.context.actor, id, url, _HELM)
        )

    @strawberry.field
    async def helm_repositories(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[HelmRepository]:
        """Helm repositories.

        Args:
            q: Text to search for in URLs. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context[RepositoryOperations].page(info.context.actor, asked, _HELM)
        return relay.connection_of(page, asked, HelmRepository.of)


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
        context, change = info.context, attributes.change()
        return HelmRepository.of(
            await context[RepositoryOperations].create(info.context.actor, change, _HELM)
        )

    @strawberry.mutation
    async def update_helm_repository(
        self, info: Info, id: strawberry.ID, attributes: HelmRepositoryAttributes
    ) -> HelmRepository | None:
        """Updates a Helm repository.

        Args:
            id: ID of the repository.
            attributes: Fields to change.
        """
        repositories, actor = info.context[RepositoryOperations], info.context.actor
        return HelmRepository.of(await repositories.update(actor, id, attributes.change(), _HELM))

    @strawberry.mutation
    async def delete_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        """Removes a Helm repository. Fails with CONFLICT while services use it.

        Args:
            id: ID of the repository.
        """
        context = info.context
        return HelmRepository.of(
            await context[RepositoryOperations].delete(info.context.actor, id, _HELM)
        )

    @strawberry.mutation
    async def sync_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        """Polls a Helm repository now.

        Args:
            id: ID of the repository.
        """
        context = info.context
        return HelmRepository.of(
            await context[RepositoryOperations].sync(info.context.actor, id, _HELM)
        )
