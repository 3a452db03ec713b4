"""Ports of manifests."""

from typing import Protocol

from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.platform.ports import Rows


class DeclaredResourceStore(Rows[DeclaredResource], Protocol):
    """Owners of the fields of resources."""

    async def of_set(self, name: str) -> list[DeclaredResource]:
        return await self.select(prune_set=name)
