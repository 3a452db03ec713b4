"""Git repositories in the API."""

from enum import Enum
from typing import Protocol

import strawberry

from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.repositories.api.fields import RepositoryFields
from controlplane.repositories.model.repository import AuthMethod as SignIn
from controlplane.repositories.model.repository import GitHealth, Repository
from controlplane.repositories.operations import RepositoryChange
from core.errors import Invalid
from core.spec.source import Commit, RepositoryKind

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


@output(Commit, only={"sha", "subject"})
class RefCommit(Output[Commit]):
    """Latest commit of a ref in use."""

    ref: str
    """Branch or tag."""


@output(
    Repository,
    rename={
        "sign_in": "auth_method",
        "recurse_submodules": "submodules",
        "pulled_at": "fetched_at",
        "via_cluster_id": "via",
    },
    hide={"sealed", "sealed_webhook", "project_id", "kind"},
)
class GitRepository(Output[Repository]):
    """A Git repository."""

    auth_method: CompatibleAuthMethod | None = computed(
        lambda row: _AUTH_METHODS.get(row.auth_method)
    )
    """Authentication method in the terms of compatible clients. Null for other methods."""
    decrypt: bool | None
    recurse_submodules: bool | None
    size: float | None
    commits: list[RefCommit] = computed(
        lambda row: [RefCommit.of(commit, ref=ref) for ref, commit in sorted(row.commits.items())]
    )


@draft(RepositoryChange, rename={"via_cluster_id": "via", "recurse_submodules": "submodules"})
class GitAttributes(Draft[RepositoryChange]):
    """Fields of a Git repository. A field that is null or absent stays as it is. Secrets are never
    returned."""

    url: str
    app_id: str | None = None
    installation_id: str | None = None
    via_cluster_id: str | None = None
    decrypt: bool | None = None
    """Not supported. Present for compatibility."""

    def field_values(self) -> FieldValues:
        if self.decrypt:
            raise Invalid(
                "git-crypt is not supported: remove it. SOPS files are decrypted with the age keys "
                "in git.render.age_keys; store other secrets in service contexts",
                field="decrypt",
            )
        return super().field_values()


GIT = RepositoryFields(RepositoryKind.GIT, GitRepository, GitAttributes)
