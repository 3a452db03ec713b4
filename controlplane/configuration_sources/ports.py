"""Ports of configuration sources."""

from typing import Protocol

from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.platform.ports import NamedRows, ProjectRows


class ConfigurationSourceStore(
    NamedRows[ConfigurationSource], ProjectRows[ConfigurationSource], Protocol
):
    """Configuration sources."""

    async def of_repository(self, id: str) -> list[ConfigurationSource]:
        return await self.select(repository_id=id)
