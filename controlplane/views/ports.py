"""The port of saved views."""

from typing import Protocol

from controlplane.platform.ports import ProjectRows
from controlplane.views.model import SavedView, Sharing


class SavedViewStore(ProjectRows[SavedView], Protocol):
    """Saved views of all users."""

    async def of_owner(self, owner_id: str) -> list[SavedView]:
        return await self.select(owner_id=owner_id)

    async def shared(self) -> list[SavedView]:
        return await self.select(sharing=[Sharing.PROJECT, Sharing.EVERYBODY])
