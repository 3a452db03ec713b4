"""Repositories of manifests and charts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.access import Resource, ResourceKind
from core.errors import Invalid
from core.identity import ClusterId, RepositoryId
from core.remotes import parse_remote
from core.spec.source import Commit, RepositoryKind


class AuthMethod(StrEnum):
    """Authentication of a repository: password or token, SSH key, GitHub App, or only TLS."""

    BASIC = "BASIC"
    """Username and password, or a token."""
    SSH = "SSH"
    """An SSH key."""
    APP = "APP"
    """A GitHub App."""
    CERTIFICATE = "CERTIFICATE"
    """A TLS client certificate."""


class GitHealth(StrEnum):
    """Result of the last poll of a repository."""

    PULLABLE = "PULLABLE"
    """The last poll succeeded."""
    FAILED = "FAILED"
    """The last poll failed."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository and its state after the last poll.

    `sealed` holds the credentials and `sealed_webhook` the webhook's secret, both encrypted.
    `commits` maps each used ref to its newest commit. `via` names the cluster whose agent connects
    to the server. `size` is that of the local copy in bytes. `owner` is the replica that fetches
    it. `https_path` and `url_format` build links for browsers; the control plane never requests
    them. A repository of kind HELM is a Helm repository, and its refs are charts with version
    ranges.
    """

    id: RepositoryId
    url: str
    inserted_at: datetime
    updated_at: datetime
    auth_method: AuthMethod | None = None
    sealed: bytes | None = field(default=None, repr=False)
    sealed_webhook: bytes | None = field(default=None, repr=False)
    decrypt: bool = False
    health: GitHealth | None = None
    error: str | None = None
    commits: Mapping[str, Commit] = field(default_factory=dict)
    polled_at: datetime | None = None
    fetched_at: datetime | None = None
    via: ClusterId | None = None
    submodules: bool = False
    size: int | None = None
    owner: str | None = None
    project_id: str | None = None
    https_path: str | None = None
    url_format: str | None = None
    kind: RepositoryKind = RepositoryKind.GIT

    @property
    def target(self) -> Resource:
        """Returns the repository's location for authorization."""
        return Resource.within(ResourceKind.REPOSITORY, self.project_id, self.id, self.url)


def origin_of(url: str, kind: RepositoryKind) -> tuple[object, ...]:
    """Returns the server of a repository's URL. Raises Invalid if the URL does not fit the kind."""
    if kind is RepositoryKind.GIT:
        return parse_remote(url).origin
    scheme, oci, place = url.partition("oci://")
    remote = parse_remote(f"https://{place}" if oci and not scheme else url)
    if not remote.is_http:
        raise Invalid("a Helm repository needs https://… or oci://…", field="url")
    return (bool(oci), *remote.origin)


def check_ref(ref: str) -> str:
    """Checks a branch, tag or commit that git accepts as a ref name (git-check-ref-format)."""
    bad = (
        not ref
        or len(ref) > 255
        or ref.startswith(("-", "/", "."))
        or ref.endswith(("/", ".", ".lock"))
        or any(part in ref for part in ("..", "@{", "//", "\\", "~", "^", ":", "?", "*", "["))
        or any(ord(char) <= 32 or ord(char) == 127 for char in ref)
    )
    if bad:
        raise Invalid(f"{ref[:80]!r} is not a branch, tag or commit", field="git.ref")
    return ref


def check_folder(folder: str) -> str:
    """Normalizes a folder relative to the repository's root; empty for the root."""
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if ".." in parts or len(folder) > 1024 or any(ord(char) < 32 for char in folder):
        raise Invalid(f"{folder[:80]!r} leaves the repository", field="git.folder")
    return "/".join(parts)
