"""Ports to git servers, as Protocols."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from core.identity import ClusterId, RepositoryId
from core.spec.bundle import Attestation
from core.spec.edits import Edit, MergeRequest
from core.spec.source import Commit, RenderedBundle, RenderRequest, RepositorySpec, RepositoryState
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity


class GitTags(Protocol):
    """Direct queries to git servers, beyond the followed refs."""

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        """Returns the names of all tags of a repository. Raises Unavailable, Invalid."""
        ...


class GitHistory(Protocol):
    """Commits of git servers, which the git cache does not keep."""

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        """Returns the number of commits since `base` in the history of `tip`, at most 1,000.

        Returns None if `base` is not part of it. Raises Unavailable, Invalid.
        """
        ...


class GitWriter(Protocol):
    """Writes to followed repositories: commits and pull requests.

    All operations are idempotent. `provider` as in `PullRequests`.
    """

    async def commit(
        self,
        repository_id: RepositoryId,
        edits: Sequence[Edit],
        *,
        branch: str,
        base: str,
        author: str,
        message: str,
    ) -> str | None:
        """Commits edits on top of a branch and pushes it; returns the sha of the new tip.

        A missing branch starts at the branch `base`. Returns None, without creating the branch, if
        `base` already contains all edits. `author` is `Name <email>`, and signs off. Raises
        Conflict if the branch keeps moving, Forbidden if the server rejects the push, NotFound if
        neither branch exists, Invalid if an edit cannot be applied, and Unavailable for temporary
        failures.
        """
        ...

    async def open_request(
        self,
        repository_id: RepositoryId,
        *,
        branch: str,
        base: str,
        title: str,
        body: str = "",
        provider: str = "",
    ) -> MergeRequest:
        """Returns the open pull request from a branch to a base, and creates it if needed.

        Raises Invalid, NotFound or Unavailable if that is impossible.
        """
        ...

    async def request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """Returns the state of a pull request. Raises NotFound, Unavailable."""
        ...

    async def close_request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """Closes an open pull request without merging; its branch
        stays. Returns its final state.
        """
        ...

    async def delete_branch(self, repository_id: RepositoryId, branch: str, author: str) -> bool:
        """Deletes a branch whose newest commit is by `author` (`Name <email>`); returns whether it
        is gone.

        A branch with commits by others stays. Raises Forbidden, Unavailable, Invalid.
        """
        ...


class AgentRenderer(Protocol):
    """Renders folders by agents of clusters."""

    async def render(self, cluster_id: ClusterId, request: RenderRequest) -> RenderedBundle:
        """Renders as `ManifestSource`. Raises Unavailable also if the agent cannot render, with the
        reason.
        """
        ...


class ManifestSource(Protocol):
    """The git cache: follows repositories, renders folders, keeps bundles."""

    def follow(self, spec: RepositorySpec) -> None: ...

    def forget(self, repository_id: RepositoryId) -> None: ...

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None: ...

    def state(self, repository_id: RepositoryId) -> RepositoryState | None: ...

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None: ...

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]: ...

    async def resolve(self, repository_id: RepositoryId, name: str) -> Commit: ...

    async def render(self, request: RenderRequest) -> RenderedBundle: ...

    async def bundle(self, digest: str) -> bytes: ...

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """Returns the paths of all folders at most `depth` levels below a base. Raises Unavailable,
        Invalid.
        """
        ...

    async def files(
        self, repository_id: RepositoryId, commit: str, folder: str, endings: Collection[str]
    ) -> Mapping[str, bytes]:
        """Returns the files below a folder whose names have one of these endings, by their paths.

        Hidden folders and symbolic links are left out. Raises Invalid for an unknown folder or
        more than `MAX_READ_FILES` files or `MAX_READ_BYTES`, and Unavailable.
        """
        ...

    async def store_bundle(self, data: bytes) -> RenderedBundle:
        """Stores a bundle that comes from no repository. Raises Unavailable."""
        ...

    async def signing_identity(self) -> SigningIdentity:
        """Returns the public signing key and its rotations. Raises Unavailable."""
        ...

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> list[Attestation]:
        """Signs orders to agents; none if nothing is signed. Raises Unavailable."""
        ...

    async def renew(self, attestation: Attestation) -> Attestation:
        """Signs a statement of a former key again; returns others unchanged. Raises Unavailable."""
        ...
