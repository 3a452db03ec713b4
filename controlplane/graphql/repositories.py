"""Git repositories, as the API shows them."""

from datetime import datetime
from enum import Enum

import strawberry

from controlplane.domain.repositories import AuthMethod as SignIn
from controlplane.domain.repositories import GitHealth, Repository

strawberry.enum(GitHealth, name="GitHealth")
strawberry.enum(SignIn, name="RepositorySignIn")


@strawberry.enum
class AuthMethod(Enum):
    """What clients of other control planes know; `RepositorySignIn` has all."""

    BASIC = "BASIC"
    SSH = "SSH"


_AUTH_METHODS = {
    SignIn.BASIC: AuthMethod.BASIC,
    SignIn.APP: AuthMethod.BASIC,
    SignIn.SSH: AuthMethod.SSH,
}


@strawberry.type
class GitRef:
    ref: str
    folder: str


@strawberry.type
class Commit:
    sha: str
    author: str
    subject: str
    committed_at: datetime


@strawberry.type
class RefCommit:
    """Where a ref that is in use was last seen."""

    ref: str
    sha: str
    subject: str


@strawberry.type
class GitRepository:
    """`size` is that of the local copy in bytes, `owner` the replica that fetches it."""

    id: strawberry.ID
    url: str
    error: str | None
    health: GitHealth | None
    auth_method: AuthMethod | None
    sign_in: SignIn | None
    decrypt: bool | None
    recurse_submodules: bool | None
    https_path: str | None
    url_format: str | None
    inserted_at: datetime
    updated_at: datetime
    pulled_at: datetime | None
    polled_at: datetime | None
    via_cluster_id: strawberry.ID | None
    size: float | None
    owner: str | None
    commits: list[RefCommit]

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
                RefCommit(ref=ref, sha=one.sha, subject=one.subject)
                for ref, one in sorted(row.commits.items())
            ],
        )
