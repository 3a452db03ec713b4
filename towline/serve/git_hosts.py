"""Implements the control plane's ports for Git hosts with the git cache's write side."""

from collections.abc import Callable, Collection, Sequence

from core.errors import Invalid, Unavailable
from core.identity import RepositoryId
from core.spec.edits import Edit, MergeRequest, OpenMergeRequest
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.write.merge_requests import Provider
from gitcache.write.service import GitWriteService


class GitHostAdapter:
    """Calls the Git hosts of followed repositories, with the credentials of the repositories."""

    def __init__(
        self, write_service: GitWriteService, specs: Callable[[], Collection[RepositorySpec]]
    ) -> None:
        self._write_service = write_service
        self._specs = specs

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        """See `controlplane.generators.ports.PullRequests`."""
        spec = self._followed_spec(repository_id)
        return await self._write_service.open_requests(spec, _provider(provider))

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        """See `controlplane.platform.git_ports.GitTags`."""
        return await self._write_service.tags(self._followed_spec(repository_id))

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        """See `controlplane.platform.git_ports.GitHistory`."""
        return await self._write_service.count_commits(
            self._followed_spec(repository_id), base, tip
        )

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        """See `controlplane.repositories.ports.CredentialIssuer`."""
        return await self._write_service.issue_read_token(self._followed_spec(repository_id))

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
        """See `controlplane.platform.git_ports.GitWriter`."""
        spec = self._followed_spec(repository_id)
        sha = await self._write_service.commit(spec, branch, base, edits, author, message)
        await self._write_service.keep_only(self._specs())
        return sha

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
        """See `controlplane.platform.git_ports.GitWriter`."""
        spec = self._followed_spec(repository_id)
        return await self._write_service.open_request(
            spec, _provider(provider), branch, base, title, body
        )

    async def request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """See `controlplane.platform.git_ports.GitWriter`."""
        return await self._write_service.request(
            self._followed_spec(repository_id), _provider(provider), number
        )

    async def close_request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """See `controlplane.platform.git_ports.GitWriter`."""
        spec = self._followed_spec(repository_id)
        return await self._write_service.close_request(spec, _provider(provider), number)

    async def delete_branch(self, repository_id: RepositoryId, branch: str, author: str) -> bool:
        """See `controlplane.platform.git_ports.GitWriter`."""
        return await self._write_service.delete_branch(
            self._followed_spec(repository_id), branch, author
        )

    def _followed_spec(self, repository_id: RepositoryId) -> RepositorySpec:
        spec = next((spec for spec in self._specs() if spec.id == repository_id), None)
        if spec is None:
            raise Unavailable(f"repository {repository_id} is not followed yet")
        return spec


def _provider(name: str) -> Provider | None:
    try:
        return Provider(name) if name else None
    except ValueError:
        expected = ", ".join(provider.value for provider in Provider)
        raise Invalid(
            f"unknown provider {name[:40]!r}; expected one of {expected}", field="provider"
        ) from None
