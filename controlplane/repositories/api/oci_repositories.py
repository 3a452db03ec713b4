"""OCI repositories in the API."""

import strawberry

from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.repositories.api.fields import RepositoryFields
from controlplane.repositories.api.helm_repositories import REGISTRY_ATTRIBUTES, REGISTRY_FIELDS
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


_OCI = RepositoryFields(RepositoryKind.OCI, OciRepositoryType, OciRepositoryAttributes)


@strawberry.type
class OciRepositoryQuery:
    oci_repository = _OCI.get
    """An OCI repository, by ID or URL."""
    oci_repositories = _OCI.page
    """OCI repositories.

    Args:
        q: Text to search for in URLs. Limit: 200 characters.
    """


@strawberry.type
class OciRepositoryMutation:
    create_oci_repository = _OCI.create
    """Adds an OCI repository."""
    update_oci_repository = _OCI.update
    """Updates an OCI repository."""
    delete_oci_repository = _OCI.delete
    """Removes an OCI repository. Fails with CONFLICT while services use it."""
    sync_oci_repository = _OCI.sync
    """Polls an OCI repository now."""
