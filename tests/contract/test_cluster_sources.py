"""Cluster sources and their objects, kept and found the same by all stores."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.cluster_sources.model.inventory import ClusterProperty
from controlplane.cluster_sources.model.members import ClusterSourceMember, MemberState
from controlplane.cluster_sources.model.source import (
    ClusterSource,
    ClusterSourceResult,
    ClusterSourceSettings,
    ClusterSourceStatus,
    GonePolicy,
    InventoryKind,
)
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ClusterSourceStore
from controlplane.platform.ports import PageQuery, Store
from core.errors import Conflict

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
SETTINGS = ClusterSourceSettings(
    "hub", "robot", InventoryKind.CLUSTER_PROFILE, "fleet", "env=prod", "x-{name}", {"a": "b"},
    ("env", "example.org/tier"), GonePolicy.DELETE, 7, 3, 90, True,
)  # fmt: skip
STATUS = ClusterSourceStatus(ClusterSourceResult.INCOMPLETE, "a conflict", NOW)
SOURCE = ClusterSource("1", "capi", NOW, NOW, "project", SETTINGS, STATUS)
MEMBER = ClusterSourceMember(
    "2", "1", "uid", "fleet", "eu-1", NOW, NOW, MemberState.GONE, "a reason", "cluster",
    {"env": "prod"}, "v1.34.0", (ClusterProperty("location", "eu"),), "token", NOW,
)  # fmt: skip


async def test_a_source_keeps_every_field(store: Store) -> None:
    async with store.write() as tx:
        await tx[ClusterSourceStore].add(SOURCE)
    async with store.read() as tx:
        assert await tx[ClusterSourceStore].get("1") == SOURCE
        assert await tx[ClusterSourceStore].by_name("capi") == SOURCE


async def test_an_object_keeps_every_field(store: Store) -> None:
    async with store.write() as tx:
        await tx[ClusterSourceStore].add(SOURCE)
        await tx[ClusterSourceMemberStore].add(MEMBER)
    async with store.read() as tx:
        assert await tx[ClusterSourceMemberStore].of_source("1") == [MEMBER]
        assert await tx[ClusterSourceMemberStore].of_source("2") == []
        for text, count in (("eu-", 1), ("fleet", 1), ("us-", 0)):
            page = await tx[ClusterSourceMemberStore].page(
                PageQuery(text=text, equals={"source_id": "1", "state": MemberState.GONE})
            )
            assert len(page.items) == count


async def test_a_source_has_an_object_once(store: Store) -> None:
    async with store.write() as tx:
        await tx[ClusterSourceStore].add(SOURCE)
        await tx[ClusterSourceMemberStore].add(MEMBER)
    with pytest.raises(Conflict):
        async with store.write() as tx:
            await tx[ClusterSourceMemberStore].add(replace(MEMBER, id="3"))
