"""Ports of generators."""

from collections.abc import Collection
from typing import Protocol

from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.platform.ports import NamedRows, ProjectRows, Rows
from core.identity import RepositoryId
from core.spec.edits import OpenMergeRequest


class PullRequests(Protocol):
    """Git servers in their role as hosts of pull requests."""

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        """Returns all open pull requests, completely or not at all.

        Raises Invalid, NotFound or Unavailable. `provider` is github, gitlab or gitea; needed if
        the host's name does not identify it.
        """
        ...


class GlobalServiceStore(NamedRows[GlobalService], ProjectRows[GlobalService], Protocol):
    """Global services."""

    async def of_source(self, source_id: str) -> list[GlobalService]:
        return await self.select(source_id=source_id)

    async def prefetch_sources(self, services: Collection[str]) -> None:
        """Reads what `of_source` returns for one service at a time later."""
        await self.prefetch("source_id", services)

    async def active_of_source(self, source_id: str) -> list[GlobalService]:
        return await self.select(source_id=source_id, ending_at=None)


class GlobalOverrideStore(Rows[GlobalOverride], Protocol):
    """Overrides of global services by cluster."""

    async def of_cluster(self, global_id: str, cluster_id: str) -> GlobalOverride | None:
        return await self.find(global_id=global_id, cluster_id=cluster_id)

    async def of_definition(self, global_id: str) -> list[GlobalOverride]:
        return await self.select(global_id=global_id)

    async def of_definitions(self, global_ids: Collection[str]) -> list[GlobalOverride]:
        return await self.select(global_id=global_ids)


class ServiceSetStore(NamedRows[ServiceSet], ProjectRows[ServiceSet], Protocol):
    """Service sets."""


class ManagedNamespaceStore(NamedRows[ManagedNamespace], ProjectRows[ManagedNamespace], Protocol):
    """Managed namespaces."""
