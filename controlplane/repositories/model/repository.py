"""Repositories of manifests and charts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from semantic_version import NpmSpec

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.identity import ClusterId, RepositoryId
from core.remotes import normalize_oci_url, parse_chart_remote, parse_remote
from core.spec.images import is_artifact_ref, is_digest, is_repository_name, is_tag_range
from core.spec.source import Commit, RepositoryKind

LINKS = ("https://", "http://")
"""Beginnings of the URLs of web pages; others, such as `javascript:`, could run in a browser."""


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
    """A repository and its state after the last poll."""

    id: RepositoryId
    url: str
    """URL of the repository."""
    inserted_at: datetime
    updated_at: datetime
    auth_method: AuthMethod | None = None
    """Authentication method. None for a public repository."""
    sealed: bytes | None = field(default=None, repr=False)
    """Credentials, encrypted."""
    sealed_webhook: bytes | None = field(default=None, repr=False)
    """Secret that signs push webhooks, encrypted."""
    decrypt: bool = False
    """Always false. Present for compatibility."""
    health: GitHealth | None = None
    """Result of the last poll. None before the first one."""
    error: str | None = None
    """Error of the last poll. None if it succeeded."""
    commits: Mapping[str, Commit] = field(default_factory=dict)
    """Latest commit of each ref in use."""
    polled_at: datetime | None = None
    """Time of the last poll."""
    fetched_at: datetime | None = None
    """Time of the last fetch. None before the first one."""
    via: ClusterId | None = None
    """ID of the cluster whose agent reaches the server. None for a direct connection."""
    submodules: bool = False
    """True if submodules are fetched."""
    size: int | None = None
    """Size of the local copy in bytes. None before the first fetch."""
    owner: str | None = None
    """Replica that fetches the repository. None if there is none."""
    project_id: str = DEFAULT_PROJECT
    """ID of the project."""
    https_path: str | None = None
    """URL of the repository for browsers. The control plane never requests it."""
    url_format: str | None = None
    """Template of links to files for browsers. The control plane never requests them."""
    kind: RepositoryKind = RepositoryKind.GIT
    """Kind of repository. Refs of a Helm repository are charts with version ranges, those of an OCI
    repository tags, version ranges and digests."""

    @property
    def target(self) -> Resource:
        """Returns the repository's location for authorization."""
        return Resource.within(ResourceKind.REPOSITORY, self.project_id, self.id, self.url)


def origin_of(url: str, kind: RepositoryKind) -> tuple[object, ...]:
    """Returns the server of a repository's URL. Raises Invalid if the URL does not fit the kind."""
    if kind is RepositoryKind.GIT:
        return parse_remote(url).origin
    if kind is RepositoryKind.OCI:
        _check_artifact_url(url)
    return (url.startswith("oci://"), *parse_chart_remote(url).origin)


def check_url(url: str, kind: RepositoryKind) -> str:
    """Checks the URL of a new repository. Raises Invalid if it does not fit the kind.

    One registry has one URL, so that one artifact is not two repositories.
    """
    origin_of(url, kind)
    if url.startswith("oci://") and (normal := normalize_oci_url(url)) != url:
        raise Invalid(f"write the URL as {normal}", field="url")
    return url


def check_link(text: str, field: str, beginnings: tuple[str, ...] = LINKS) -> None:
    """Checks the URL of a web page that browsers open, or its template."""
    check_text(text, field, 2048)
    if not text.startswith(beginnings):
        raise Invalid(f"must begin with {' or '.join(beginnings)}", field=field)


def _check_artifact_url(url: str) -> None:
    path = parse_chart_remote(url).path
    if not url.startswith("oci://") or not is_repository_name(path):
        raise Invalid(
            "an OCI repository needs oci://HOST/PATH in lower case, without a tag, such as "
            "oci://registry.example.org/team/shop",
            field="url",
        )


def check_ref(ref: str) -> str:
    """Checks a branch, tag or commit that git accepts as a ref name (git-check-ref-format), or a
    digest or version range of artifacts.
    """
    if is_digest(ref) or is_tag_range(ref):
        _check_range(ref)
    elif not _is_git_ref(ref):
        raise Invalid(f"{ref[:80]!r} is not a branch, tag or commit", field="git.ref")
    return ref


def check_ref_of(kind: RepositoryKind, ref: str) -> str:
    """Checks a ref of a repository with folders. Raises Invalid for a ref of another kind."""
    if kind is RepositoryKind.OCI:
        # Templates of service sets have placeholders in braces.
        if not is_artifact_ref(ref) and "{" not in ref:
            raise Invalid(
                f"{ref[:80]!r} is not a tag, a version range such as '>=1.2 <2', or a digest "
                "sha256:… of an OCI repository",
                field="git.ref",
            )
        return check_ref(ref)
    if not _is_git_ref(ref):
        raise Invalid(
            f"{ref[:80]!r} is not a branch, tag or commit: only OCI repositories have digests and "
            "version ranges",
            field="git.ref",
        )
    return ref


def _check_range(ref: str) -> None:
    if not is_digest(ref):
        try:
            NpmSpec(" ".join(ref.replace(",", " ").split()))
        except ValueError:
            raise Invalid(f"{ref[:80]!r} is not a version range", field="git.ref") from None


def _is_git_ref(ref: str) -> bool:
    return not (
        not ref
        or len(ref) > 255
        or ref.startswith(("-", "/"))
        or ref.endswith(("/", "."))
        or any(part.startswith(".") or part.endswith(".lock") for part in ref.split("/"))
        or any(part in ref for part in ("..", "@{", "//", "\\", "~", "^", ":", "?", "*", "["))
        or any(ord(char) <= 32 or ord(char) == 127 for char in ref)
    )


def check_folder(folder: str) -> str:
    """Checks a folder relative to the repository's root, and returns it as it is written."""
    is_invalid = len(folder) > 1024 or any(ord(char) < 32 for char in folder)
    if is_invalid or ".." in folder.split("/"):
        raise Invalid(f"{folder[:80]!r} leaves the repository", field="git.folder")
    return folder


def normalize_folder(folder: str) -> str:
    """Returns a checked folder as Git names it: without `.` and further slashes."""
    return "/".join(part for part in folder.split("/") if part not in ("", "."))
