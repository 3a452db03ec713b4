"""Ports of configuration: what its operations need of the store and of the world."""

from collections.abc import Collection
from typing import Protocol

from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import ServiceExport, ServiceImport
from controlplane.configuration.model.overrides import ContextOverride
from controlplane.platform.ports import Ids, NamedRows, ProjectRows, Rows
from controlplane.services.ports import ServiceRows


class ContextStore(NamedRows[ServiceContext], ProjectRows[ServiceContext], Protocol):
    """Service contexts."""

    async def by_reference(self, ids: Collection[str]) -> list[ServiceContext]:
        return await self.select(id=ids, by_reference=True)

    async def by_value(self, ids: Collection[str]) -> list[ServiceContext]:
        return await self.select(id=ids, by_reference=False)


class ServiceExportStore(ServiceRows[ServiceExport], Protocol):
    """Values that services export."""

    async def named(self, service_id: str, name: str) -> ServiceExport | None:
        return await self.find(service_id=service_id, name=name)


class ServiceImportStore(ServiceRows[ServiceImport], Protocol):
    """Values that services import."""

    async def of_sources(self, sources: Ids) -> list[ServiceImport]:
        return await self.select(source_id=sources)


class ContextOverrideStore(Rows[ContextOverride], Protocol):
    """Overrides of contexts by project, group and cluster."""

    async def of_contexts(self, contexts: Ids) -> list[ContextOverride]:
        return await self.select(context_id=contexts)
