"""Temporary access ends soon after it expires."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.loop import LATE_SECONDS, AccessExpiryLoop
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.ports import RoleBindingStore
from tests.fakes.access import ReadOnlyStore, bind, make_user
from tests.fakes.clock import START
from tests.fakes.operations import operations_over_memory

ADA = make_user("ada")


@pytest.mark.parametrize("seconds", [60, 61, 89, 3_600])
async def test_access_ends_at_most_two_seconds_late(seconds: int) -> None:
    world = operations_over_memory()
    await world.given(ADA, bind("viewer", ADA))
    loop = AccessExpiryLoop(AccessRequests(world.context), world.clock)
    await loop.start()
    await world.given(bind("admin", ADA, until=START + timedelta(seconds=seconds)))
    await world.clock.advance(seconds - 1)
    assert len(await world.rows(RoleBindingStore)) == 2
    await world.clock.advance(1 + LATE_SECONDS)
    assert [row.role_id for row in await world.rows(RoleBindingStore)] == ["viewer"]
    await loop.stop()


async def test_access_that_expired_during_an_outage_ends_after_it() -> None:
    world = operations_over_memory()
    store = ReadOnlyStore(world.context.store)
    await world.given(ADA, bind("admin", ADA, until=START + timedelta(seconds=1)))
    requests = AccessRequests(replace(world.context, store=store))
    loop = AccessExpiryLoop(requests, world.clock)
    await loop.start()
    await world.clock.advance(60)
    assert len(await world.rows(RoleBindingStore)) == 1
    store.is_read_only = False
    await world.clock.advance(5)
    assert await world.rows(RoleBindingStore) == []
    await loop.stop()
