"""The limit of a project's services holds for transactions that run at once."""

import asyncio

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.ports import ProjectStore
from controlplane.authorization import Fence
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.store.transaction import SqlStore
from controlplane.services.operations.fences import check_service_fence
from controlplane.services.ports import ServiceStore
from core.errors import Forbidden
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service

PROD = make_cluster("prod")
FENCE = Fence(unrestricted=True, max_services=1)
WAIT_S = 0.5


async def test_two_services_at_once_do_not_share_the_last_place(sql_store: SqlStore) -> None:
    async with sql_store.write() as tx:
        await tx[ProjectStore].add(Project("shop", "shop", START, START, fence=FENCE))
        await tx[ClusterStore].add(PROD)

    async def create(name: str) -> None:
        async with sql_store.write() as tx:
            service = make_service(name, PROD, project_id="shop")
            await tx[ServiceStore].add(service)
            await check_service_fence(tx, service)

    async with sql_store.write() as first:
        service = make_service("first", PROD, project_id="shop")
        await first[ServiceStore].add(service)
        await check_service_fence(first, service)
        second = asyncio.ensure_future(create("second"))
        await asyncio.wait({second}, timeout=WAIT_S)
        assert not second.done(), "it waits for the number of services"
    with pytest.raises(Forbidden, match="project 'shop' may have at most 1 services"):
        await second
    async with sql_store.read() as tx:
        assert [row.name for row in await tx[ServiceStore].of_project("shop")] == ["first"]
