"""Helm and OCI repositories in the API."""

import strawberry

from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.repositories.api.fields import RepositoryFields
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange
from core.spec.renderers import chart_of_ref
from core.spec.source import Commit, RepositoryKind

_REGISTRY_FIELDS = frozenset(
    ("id", "url", "health", "error", "project_id", "inserted_at", "updated_at", "polled_at")
)
_REGISTRY_ATTRIBUTES = frozenset(("url", "username", "password", "project_id"))


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


@output(Repository, only=_REGISTRY_FIELDS)
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


@draft(RepositoryChange, only=_REGISTRY_ATTRIBUTES)
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


@output(Commit, only={"sha", "committed_at"})
class OciArtifact(Output[Commit]):
    """An artifact in use: the newest one of a ref."""

    ref: str
    """Tag, version range or digest that services follow."""
    revision: str = computed(lambda commit: commit.subject.rpartition("@")[0])
    """Revision or version in its annotations. Without them the path of the repository."""
    digest: str = computed(lambda commit: commit.subject.rpartition("@")[2])
    """Digest of its manifest."""


@output(Repository, only=_REGISTRY_FIELDS | {"fetched_at", "size"}, name="OciRepository")
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


@draft(RepositoryChange, only=_REGISTRY_ATTRIBUTES)
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
