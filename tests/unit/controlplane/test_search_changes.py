"""Changes since a moment, for subscribers that missed some."""

from datetime import timedelta

import pytest

from controlplane.audit.ports import AuditLog
from controlplane.authorization import ResourceKind
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import MAX_PAGE_ROWS
from controlplane.search.operations import SearchOperations
from core.errors import LimitExceeded
from tests.fakes.actors import ADMIN, NOBODY
from tests.fakes.clock import START
from tests.fakes.operations import operations_over_memory


async def test_only_deletions_of_the_kind_since_the_moment_are_told() -> None:
    """And only to callers who might have seen the deleted resource."""
    world = operations_over_memory()
    search = SearchOperations(world.context)
    entries = [
        AuditEntry(at, "ada", action, AuditVerdict.ALLOWED, target="shop", target_id=id)
        for at, action, id in (
            (START, "deletePipeline", "p1"),
            (START, "deleteSecret", "s1"),
            (START - timedelta(seconds=61), "deletePipeline", "long ago"),
        )
    ]
    async with world.store.write() as tx:
        await tx[AuditLog].append(entries)
    for actor, kind, found in (
        (ADMIN, ResourceKind.PIPELINE, ["p1"]),
        (ADMIN, ResourceKind.SECRET, ["s1"]),
        (NOBODY, ResourceKind.PIPELINE, []),
    ):
        assert await search.changed_since(actor, kind, START) == found


async def test_more_deletions_than_a_page_are_not_cut() -> None:
    """A subscriber would keep what it was not told of."""
    world = operations_over_memory()
    deleted = [
        AuditEntry(
            START, "ada", "deletePipeline", AuditVerdict.ALLOWED, target="shop", target_id=f"p{n}"
        )
        for n in range(MAX_PAGE_ROWS + 1)
    ]
    search = SearchOperations(world.context)
    async with world.store.write() as tx:
        await tx[AuditLog].append(deleted[:-1])
    found = await search.changed_since(ADMIN, ResourceKind.PIPELINE, START)
    assert set(found) == {entry.target_id for entry in deleted[:-1]}
    async with world.store.write() as tx:
        await tx[AuditLog].append(deleted[-1:])
    with pytest.raises(LimitExceeded, match="read the list again"):
        await search.changed_since(ADMIN, ResourceKind.PIPELINE, START)
