"""Pushes to Git repositories, as signed webhooks of Git hosts announce them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

from core.identity import RepositoryId


@dataclass(frozen=True, slots=True)
class Push:
    """A commit that an account of a Git host made the newest of a branch or tag."""

    id: str
    repository_id: RepositoryId
    commit_sha: str
    name: str
    """Account that pushed, as the Git host named it. The host has authenticated it."""
    email: str
    """E-mail address of the account. Empty: the Git host hides it."""
    inserted_at: datetime

    @classmethod
    def of(
        cls, repository_id: RepositoryId, commit: str, name: str, email: str, at: datetime
    ) -> "Push":
        """Makes a push; the same account and commit always have the same id."""
        text = f"{repository_id}/{commit}/{name}/{email}"
        return cls(str(uuid5(NAMESPACE_URL, text)), repository_id, commit, name, email, at)

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.email else self.name
