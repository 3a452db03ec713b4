"""Ports to git servers, as Protocols."""

from collections.abc import Sequence
from typing import Protocol

from controlplane.domain.sets import PullRequest
from core.identity import RepositoryId
from core.spec.edits import Edit, MergeRequest


class PullRequests(Protocol):
    """Git servers in their role as hosts of pull requests."""

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[PullRequest]:
        """Returns all open pull requests, completely or not at all.

        Raises Invalid, NotFound or Unavailable. `provider` is github, gitlab or gitea; needed if
        the host's name does not identify it.
        """
        ...


class GitTags(Protocol):
    """Direct queries to git servers, beyond the followed refs."""

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        """Returns the names of all tags of a repository. Raises Unavailable, Invalid."""
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
        `base` already contains all edits. `author` is `Name <mail>`, and signs off. Raises Conflict
        if the branch keeps moving, Forbidden if the server rejects the push, NotFound if neither
        branch exists, Invalid if an edit cannot be applied, and Unavailable for temporary failures.
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
        """Deletes a branch whose newest commit is by `author` (`Name <mail>`); returns whether it
        is gone.

        A branch with commits by others stays. Raises Forbidden, Unavailable, Invalid.
        """
        ...
