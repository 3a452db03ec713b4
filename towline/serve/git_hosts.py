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
        self, side: GitWriteService, specs: Callable[[], Collection[RepositorySpec]]
    ) -> None:
        self._side = side
        self._specs = specs

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        """See `controlplane.generators.ports.PullRequests`."""
        spec = self._spec(repository_id)
        return await self._side.open_requests(spec, _provider(provider))

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        """See `controlplane.platform.git_ports.GitTags`."""
        return await self._side.tags(self._spec(repository_id))

    async def count_commits(self, repository_id: RepositoryId, base: str, tip: str) -> int | None:
        """See `controlplane.platform.git_ports.GitHistory`."""
        return await self._side.count_commits(self._spec(repository_id), base, tip)

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        """See `controlplane.repositories.ports.CredentialIssuer`."""
        return await self._side.issue_read_token(self._spec(repository_id))

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
        spec = self._spec(repository_id)
        sha = await self._side.commit(spec, branch, base, edits, author, message)
        await self._side.keep_only(self._specs())
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
        spec = self._spec(repository_id)
        return await self._side.open_request(spec, _provider(provider), branch, base, title, body)

    async def request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """See `controlplane.platform.git_ports.GitWriter`."""
        return await self._side.request(self._spec(repository_id), _provider(provider), number)

    async def close_request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        """See `controlplane.platform.git_ports.GitWriter`."""
        spec = self._spec(repository_id)
        return await self._side.close_request(spec, _provider(provider), number)

    async def delete_branch(self, repository_id: RepositoryId, branch: str, author: str) -> bool:
        """See `controlplane.platform.git_ports.GitWriter`."""
        return await self._side.delete_branch(self._spec(repository_id), branch, author)

    def _spec(self, repository_id: RepositoryId) -> RepositorySpec:
        spec = next((spec for spec in self._specs() if spec.id == repository_id), None)
        if spec is None:
            raise Unavailable(f"repository {repository_id} is not followed yet")
        return spec


def _provider(name: str) -> Provider | None:
    try:
        return Provider(name) if name else None
    except ValueError:
        known = ", ".join(provider.value for provider in Provider)
        raise Invalid(
            f"unknown provider {name[:40]!r}; expected one of {known}", field="provider"
        ) from None
