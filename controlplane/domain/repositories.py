"""Git repositories that services take their manifests from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fleet.errors import Invalid
from fleet.identity import RepositoryId
from fleet.source import Commit


class AuthMethod(StrEnum):
    """How a repository is read."""

    BASIC = "BASIC"
    SSH = "SSH"


class GitHealth(StrEnum):
    """Whether the last poll reached the repository."""

    PULLABLE = "PULLABLE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository and what was last seen of it.

    `sealed` holds the credentials and `sealed_webhook` the webhook's secret, both encrypted;
    `commits` maps each ref in use to its newest commit.
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


def check_ref(ref: str) -> str:
    """A branch, tag or sha that git accepts as a ref name (git-check-ref-format)."""
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
    """A folder relative to the repository's root, normalised; empty for the root."""
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if ".." in parts or len(folder) > 1024 or any(ord(char) < 32 for char in folder):
        raise Invalid(f"{folder[:80]!r} leaves the repository", field="git.folder")
    return "/".join(parts)
