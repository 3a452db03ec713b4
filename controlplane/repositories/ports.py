"""Ports of repositories."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from controlplane.authorization import Actor
from controlplane.platform.ports import ProjectRows, Rows
from controlplane.repositories.model.push import Push
from controlplane.repositories.model.repository import GitHealth, Repository
from core.identity import RepositoryId
from core.outbound.credentials import RegistryAccount
from core.spec.source import GitCredentials


class CredentialIssuer(Protocol):
    """Repository credentials for agents that render."""

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        """Returns credentials for this repository only, which expire within the hour.

        None: there are none to issue; the agent needs none, or has its own. Raises Unavailable.
        """
        ...


class Registries(Protocol):
    """Image registries. `image` includes its registry and has no tag.

    Raises Unavailable if the registry does not answer or denies access (with `retry_after` if it
    gives a time), NotFound for a missing image or tag, Invalid for too large results.
    """

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        """Returns all tags of an image, at most 20,000."""
        ...

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        """Returns the current digest of a tag."""
        ...

    async def build_time(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        """Returns the build time of a tag's image."""
        ...


class RepositoryStore(ProjectRows[Repository], Protocol):
    """Connected repositories of manifests and charts."""

    async def by_url(self, url: str) -> Repository | None:
        return await self.find(url=url)

    async def by_urls(self, urls: Collection[str]) -> list[Repository]:
        return await self.select(url=urls)

    async def failed(self) -> list[Repository]:
        return await self.select(health=GitHealth.FAILED)

    async def set_polled(self, id: str, at: datetime | None) -> None:
        await self.change(id, polled_at=at)


class PushStore(Rows[Push], Protocol):
    """Pushes that webhooks have announced."""

    async def of_commits(
        self, repositories: Collection[str], commits: Collection[str]
    ) -> list[Push]:
        return await self.select(repository_id=repositories, commit_sha=commits)


@dataclass(frozen=True, slots=True)
class FollowedFiles:
    """The refs and folders of a repository that services use."""

    refs: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


class RepositoryUsers(Protocol):
    """Services and configuration sources that take files from repositories."""

    async def followed(self, repository_id: str | None = None) -> Mapping[str, FollowedFiles]:
        """Returns what services use of one repository or of all, by repository id."""
        ...

    async def followed_ref(self, service_id: str) -> str | None:
        """Returns the ref that a service follows; None: there is no such service."""
        ...

    async def service_names(self, repository_id: str) -> list[str]:
        """Returns the names of the services that use a repository, deleted ones included."""
        ...

    async def followers(self, repository_id: str) -> list[str]:
        """Returns the names of the configuration sources that follow a repository."""
        ...

    async def check_change(self, actor: Actor, repository_id: str, now: datetime) -> None:
        """Checks that the actor may change the server or the credentials of a repository.

        Forbidden: a configuration source applies its files with permissions that the actor lacks.
        """
        ...

    async def check_network(self, actor: Actor, cluster_id: str) -> None:
        """Checks that the actor may reach a repository through the network of a cluster.

        NotFound: there is no such cluster. Forbidden: the actor may not change it.
        """
        ...
