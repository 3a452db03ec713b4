"""Ports of manifests."""

from collections.abc import Collection, Sequence
from typing import Protocol

from controlplane.manifests.model.documents import DocumentProblem
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.manifests.model.plan import ManifestEffect
from controlplane.platform.ports import Rows, Transaction


class DeclaredResourceStore(Rows[DeclaredResource], Protocol):
    """Owners of the fields of resources."""

    async def of_set(self, name: str) -> list[DeclaredResource]:
        return await self.select(prune_set=name)


class ApplyGuard(Protocol):
    """Checks the outcome of an apply in its transaction, before anything is kept."""

    async def begin(self, tx: Transaction) -> None:
        """Notes the state before the apply."""
        ...

    async def problems(
        self, tx: Transaction, items: Sequence[ManifestEffect], deleted: Collection[str]
    ) -> Sequence[DocumentProblem]:
        """Returns the reasons against the outcome. `deleted` has the IDs of deleted resources."""
        ...
