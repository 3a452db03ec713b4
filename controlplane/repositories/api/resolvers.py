"""Resolvers of repositories, shared by their kinds."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from core.spec.source import RepositoryKind

T = TypeVar("T", bound=Output[Repository])


@dataclass(frozen=True, slots=True)
class RepositoryResolvers(Generic[T]):
    """Resolvers of one kind, published as `output`."""

    kind: RepositoryKind
    output: type[T]

    async def get(self, info: Info, id: str | None, url: str | None) -> T:
        """Finds a repository by id, or else by URL."""
        found = await info.context[RepositoryOperations].get(info.context.actor, id, url, self.kind)
        return self.output.of(found)

    async def page(self, info: Info, asked: relay.PageQuery) -> relay.Connection[T]:
        """Returns a page of the repositories."""
        repositories = info.context[RepositoryOperations]
        page = await repositories.page(info.context.actor, asked, self.kind)
        return relay.connection_of(page, asked, self.output.of)

    async def create(self, info: Info, attributes: Draft[RepositoryChange]) -> T:
        """Adds a repository."""
        repositories, actor = info.context[RepositoryOperations], info.context.actor
        return self.output.of(await repositories.create(actor, attributes.change(), self.kind))

    async def update(self, info: Info, id: str, attributes: Draft[RepositoryChange]) -> T:
        """Changes a repository."""
        repositories, actor = info.context[RepositoryOperations], info.context.actor
        return self.output.of(await repositories.update(actor, id, attributes.change(), self.kind))

    async def delete(self, info: Info, id: str) -> T:
        """Removes a repository."""
        repositories, actor = info.context[RepositoryOperations], info.context.actor
        return self.output.of(await repositories.delete(actor, id, self.kind))

    async def sync(self, info: Info, id: str) -> T:
        """Polls a repository now."""
        repositories, actor = info.context[RepositoryOperations], info.context.actor
        return self.output.of(await repositories.sync(actor, id, self.kind))
