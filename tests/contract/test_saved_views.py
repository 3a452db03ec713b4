"""Saved views in each implementation of the store."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.platform.ports import Store
from controlplane.views.model import SavedView, Sharing
from controlplane.views.ports import SavedViewStore
from core.errors import Conflict

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
OWN = SavedView(
    *("v1", "failed", "services", "ada", "ada@example.org", NOW, NOW, "state:failed"),
    {"status": "FAILED"},
    ("name", "state"),
    "-name",
)
OF_SHOP = replace(OWN, id="v2", name="shop", sharing=Sharing.PROJECT, project_id="shop")
OF_ALL = replace(OWN, id="v3", owner_id="eve", sharing=Sharing.EVERYBODY)


async def test_views_are_found_by_owner_and_by_sharing(store: Store) -> None:
    async with store.write() as tx:
        await tx[SavedViewStore].add_each([OWN, OF_SHOP, OF_ALL])
    async with store.read() as tx:
        views = tx[SavedViewStore]
        assert await views.get("v1") == OWN
        assert await views.of_owner("ada") == [OWN, OF_SHOP]
        assert await views.shared() == [OF_SHOP, OF_ALL]
        assert await views.of_project("shop") == [OF_SHOP]


async def test_a_name_is_unique_for_owner_and_list(store: Store) -> None:
    async with store.write() as tx:
        await tx[SavedViewStore].add_each([OWN, replace(OWN, id="v4", list="clusters")])
    with pytest.raises(Conflict):
        async with store.write() as tx:
            await tx[SavedViewStore].add(replace(OWN, id="v5"))
