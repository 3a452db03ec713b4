"""Git repositories in the API."""

from datetime import datetime
from enum import Enum
from typing import Protocol

import strawberry

from controlplane.repositories.model.repository import AuthMethod as SignIn
from controlplane.repositories.model.repository import GitHealth, Repository

strawberry.enum(GitHealth, name="GitHealth")
strawberry.enum(SignIn, name="RepositorySignIn")


@strawberry.enum(name="AuthMethod")
class CompatibleAuthMethod(Enum):
    """Authentication method in the terms of compatible clients. See `RepositorySignIn` for all
    methods."""

    BASIC = "BASIC"
    """Username and password, or a token."""
    SSH = "SSH"
    """An SSH key."""


_AUTH_METHODS = {
    SignIn.BASIC: CompatibleAuthMethod.BASIC,
    SignIn.APP: CompatibleAuthMethod.BASIC,
    SignIn.SSH: CompatibleAuthMethod.SSH,
}


class FolderAtRef(Protocol):
    """A row with a folder at a Git ref."""

    @property
    def ref(self) -> str: ...

    @property
    def folder(self) -> str: ...


@strawberry.type
class GitRef:
    """A folder at a Git ref."""

    ref: str
    """Branch, tag or commit."""
    folder: str
    """Folder in the repository. Empty for its root."""

    @classmethod
    def of(cls, row: FolderAtRef) -> "GitRef":
        return cls(ref=row.ref, folder=row.folder)


@strawberry.type
class RefCommit:
    """Latest commit of a ref in use."""

    ref: str
    """Branch or tag."""
    sha: str
    """Full SHA of the commit."""
    subject: str
    """First line of the commit message."""


@strawberry.type
class GitRepository:
    """A Git repository."""

    id: strawberry.ID
    url: str
    """URL of the repository."""
    error: str | None
    """Error of the last poll. Null if it succeeded."""
    health: GitHealth | None
    """Result of the last poll. Null before the first one."""
    auth_method: CompatibleAuthMethod | None
    """Authentication method in the terms of compatible clients. Null for other methods."""
    sign_in: SignIn | None
    """Authentication method. Null for a public repository."""
    decrypt: bool | None
    """Always false. Present for compatibility."""
    recurse_submodules: bool | None
    """True if submodules are fetched."""
    https_path: str | None
    """URL of the repository for browsers."""
    url_format: str | None
    """Template of links to files for browsers."""
    inserted_at: datetime
    updated_at: datetime
    pulled_at: datetime | None
    """Time of the last fetch. Null before the first one."""
    polled_at: datetime | None
    """Time of the last poll."""
    via_cluster_id: strawberry.ID | None
    """ID of the cluster whose agent reaches the server. Null for a direct connection."""
    size: float | None
    """Size of the local copy in bytes. Null before the first fetch."""
    owner: str | None
    """Replica that fetches the repository. Null if there is none."""
    commits: list[RefCommit]
    """Latest commit of each ref in use."""

    @classmethod
    def of(cls, row: Repository) -> "GitRepository":
        return cls(
            id=strawberry.ID(row.id),
            url=row.url,
            error=row.error,
            health=row.health,
            auth_method=_AUTH_METHODS.get(row.auth_method) if row.auth_method else None,
            sign_in=row.auth_method,
            decrypt=row.decrypt,
            recurse_submodules=row.submodules,
            https_path=row.https_path,
            url_format=row.url_format,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            pulled_at=row.fetched_at,
            polled_at=row.polled_at,
            via_cluster_id=strawberry.ID(row.via) if row.via else None,
            size=row.size,
            owner=row.owner,
            commits=[
                RefCommit(ref=ref, sha=commit.sha, subject=commit.subject)
                for ref, commit in sorted(row.commits.items())
            ],
        )
