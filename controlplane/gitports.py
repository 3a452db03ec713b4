"""What use cases need of the servers that repositories come from, as Protocols."""

from collections.abc import Sequence
from typing import Protocol

from controlplane.domain.sets import OpenRequest
from fleet.changes import Edit, MergeRequest
from fleet.identity import RepositoryId


class Hosting(Protocol):
    """The servers that repositories come from, as places where people ask for merges."""

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenRequest]:
        """All that are open, whole or not at all. Invalid, NotFound, Unavailable: why not.

        `provider`: github, gitlab or gitea, where the host's name does not tell.
        """
        ...


class GitTags(Protocol):
    """The servers that repositories come from, asked for more than is followed."""

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        """The names of all tags of a repository. Unavailable, Invalid."""
        ...


class GitWriter(Protocol):
    """What goes back to followed repositories: commits, and requests to merge them.

    All of it may be asked for again: what is there already is not made twice. `provider` as in
    `Hosting`.
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
        """Commit edits on top of a branch and push it; the sha of its tip afterwards.

        A branch that does not exist begins at `base`, another branch; None if that has it all
        already, so that no branch is made. `author` is `Name <mail>`, and signs off. Conflict: the
        branch moves all the time. Forbidden: the server declines. NotFound: neither branch is
        there. Invalid: an edit cannot be made. Unavailable: try again.
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
        """The open request to merge a branch into a base; made unless there is one.

        Invalid, NotFound, Unavailable: why there can be none.
        """
        ...

    async def request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """What has become of a request. NotFound, Unavailable."""
        ...

    async def close_request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """Close an open request unmerged; its branch stays. What has become of it."""
        ...

    async def delete_branch(self, repository_id: RepositoryId, branch: str, author: str) -> bool:
        """Delete a branch whose newest commit is of `author`, `Name <mail>`; whether it is gone.

        One that somebody else has committed to stays. Forbidden, Unavailable, Invalid.
        """
        ...
