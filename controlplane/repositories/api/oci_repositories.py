"""OCI repositories in the API."""

import strawberry

from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.repositories.api.helm_repositories import REGISTRY_ATTRIBUTES, REGISTRY_FIELDS
from controlplane.repositories.api.resolvers import RepositoryResolvers
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from core.spec.source import Commit, RepositoryKind


@output(Commit, only={"sha", "committed_at"})
class OciArtifact(Output[Commit]):
    """An artifact in use: the newest one of a ref."""

    ref: str
    """Tag, version range or digest that services follow."""
    revision: str = computed(lambda commit: commit.subject.rpartition("@")[0])
    """Revision or version in its annotations. Without them the path of the repository."""
    digest: str = computed(lambda commit: commit.subject.rpartition("@")[2])
    """Digest of its manifest."""


@output(Repository, only=REGISTRY_FIELDS | {"fetched_at", "size"}, name="OciRepository")
class OciRepositoryType(Output[Repository]):
    """A repository of artifacts in an OCI registry. A failed poll keeps the last artifacts."""

    url: str
    """URL: `oci://…`."""
    size: float | None
    has_credentials: bool = computed(lambda row: row.auth_method is not None)
    """True if credentials are stored."""
    artifacts: list[OciArtifact] = computed(
        lambda row: [OciArtifact.of(commit, ref=ref) for ref, commit in sorted(row.commits.items())]
    )
    """Artifacts that services use."""


@draft(RepositoryChange, only=REGISTRY_ATTRIBUTES)
class OciRepositoryAttributes(Draft[RepositoryChange]):
    """Fields of an OCI repository. A field that is null or absent stays as it is."""

    url: str | None = None
    """URL: `oci://HOST/PATH`, without a tag. Required on creation."""
    password: str | None = None
    """Password or token. Never returned. An empty string removes it."""


_OCI = RepositoryResolvers(RepositoryKind.OCI, OciRepositoryType)


@strawberry.type
class OciRepositoryQuery:
    @strawberry.field
    async def oci_repository(
        self, info: Info, id: strawberry.ID | None = None, url: str | None = None
    ) -> OciRepositoryType | None:
        """An OCI repository, by ID or URL.

        Args:
            id: ID of the repository.
            url: Exact URL. Used without `id`.
        """
        return await _OCI.get(info, id, url)

    @strawberry.field
    async def oci_repositories(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[OciRepositoryType]:
        """OCI repositories.

        Args:
            q: Text to search for in URLs. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q, labels=labels)
        return await _OCI.page(info, asked)


@strawberry.type
class OciRepositoryMutation:
    @strawberry.mutation
    async def create_oci_repository(
        self, info: Info, attributes: OciRepositoryAttributes
    ) -> OciRepositoryType | None:
        """Adds an OCI repository.

        Args:
            attributes: Fields of the repository.
        """
        return await _OCI.create(info, attributes)

    @strawberry.mutation
    async def update_oci_repository(
        self, info: Info, id: strawberry.ID, attributes: OciRepositoryAttributes
    ) -> OciRepositoryType | None:
        """Updates an OCI repository.

        Args:
            id: ID of the repository.
            attributes: Fields to change.
        """
        return await _OCI.update(info, id, attributes)

    @strawberry.mutation
    async def delete_oci_repository(
        self, info: Info, id: strawberry.ID
    ) -> OciRepositoryType | None:
        """Removes an OCI repository. Fails with CONFLICT while services use it.

        Args:
            id: ID of the repository.
        """
        return await _OCI.delete(info, id)

    @strawberry.mutation
    async def sync_oci_repository(self, info: Info, id: strawberry.ID) -> OciRepositoryType | None:
        """Polls an OCI repository now.

        Args:
            id: ID of the repository.
        """
        return await _OCI.sync(info, id)
