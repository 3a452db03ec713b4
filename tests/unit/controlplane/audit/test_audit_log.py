"""The audit log: visible entries, refused calls, retention and verification."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from controlplane.audit.model.chains import AuditFilter, AuditKind, ChainHead
from controlplane.audit.operations.audit_log import AuditLogOperations, check_chains
from controlplane.audit.ports import AuditLog
from controlplane.audit.store import audit_blocks
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    Actor,
    Grant,
    Limit,
    Policy,
    Scope,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict, RepeatedEntry
from controlplane.platform.ports import PageQuery, Store
from core.errors import Forbidden, Invalid, TowlineError, Unauthenticated, Unavailable
from core.open_streams import RequestEnd
from tests.fakes.access import ReadOnlyStore
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.memory_store.constraints import Row
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

ENTRY = AuditEntry(START, "ada@example.org", "updateCluster", AuditVerdict.ALLOWED)
OF_DEV = replace(ENTRY, target="dev", target_id="dev")
OF_PROD = replace(ENTRY, target="prod", target_id="prod")
SIGN_IN = replace(ENTRY, action="signIn")
DAY = timedelta(days=1)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(make_cluster("dev"), make_cluster("prod"))
    return world


@pytest.fixture
def audit_log(world: MemoryOperations) -> AuditLogOperations:
    return AuditLogOperations(world.context)


async def refusals(world: MemoryOperations) -> list[AuditEntry]:
    async with world.store.read() as tx:
        return await audit_rows(tx, "deleteCluster")


async def test_a_page_has_the_newest_visible_entries_first(audit_log: AuditLogOperations) -> None:
    await audit_log.append([OF_DEV, OF_PROD, SIGN_IN])
    of_dev = person(BuiltInRole.ADMIN, "dana", Scope("cluster:dev"))
    for actor, filter, found in (
        (ADMIN, None, ["signIn", "updateCluster", "updateCluster"]),
        (ADMIN, AuditFilter(target="prod"), ["updateCluster"]),
        (of_dev, None, ["updateCluster"]),
        (of_dev, AuditFilter(target="prod"), []),
    ):
        page = await audit_log.page(actor, PageQuery(10), filter)
        assert [entry.action for entry in page.items] == found
    first = await audit_log.page(ADMIN, PageQuery(1))
    after = PageQuery(10, str(first.items[-1].id))
    assert first.more and len((await audit_log.page(ADMIN, after)).items) == 2


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "9" * 21, "9" * 5000])
async def test_a_page_after_no_entry_of_the_list_is_refused(
    audit_log: AuditLogOperations, cursor: str
) -> None:
    """A number of thousands of digits is one, too."""
    await audit_log.append([OF_DEV])
    with pytest.raises(Invalid, match="is not a cursor of this list"):
        await audit_log.page(ADMIN, PageQuery(10, cursor))


async def test_readers_of_several_scopes_see_the_entries_of_each(
    audit_log: AuditLogOperations,
) -> None:
    """Within the limits of their token; entries of the installation are in no project."""
    await audit_log.append([OF_DEV, OF_PROD, SIGN_IN])
    dev, prod = Scope("cluster:dev"), Scope("cluster:prod")
    grants = tuple(Grant(BUILT_IN["admin"], scope) for scope in (dev, prod))
    both = replace(ADMIN, policy=Policy(grants))
    limited = replace(ADMIN, policy=Policy(grants, (Limit(scopes=(prod,)),)))
    whole = replace(ADMIN, policy=Policy((Grant(BUILT_IN["admin"]),), (Limit(scopes=(dev,)),)))
    for actor, targets in ((both, ["prod", "dev"]), (limited, ["prod"]), (whole, ["dev"])):
        page = await audit_log.page(actor, PageQuery(10))
        assert [entry.target for entry in page.items] == targets
        exported = [row async for rows in audit_log.export(actor, AuditFilter()) for row in rows]
        assert [entry.target for entry in exported] == targets[::-1]


@pytest.mark.parametrize(
    ("actor", "error"),
    [(VIEWER, Forbidden), (EDITOR, Forbidden), (NOBODY, Forbidden), (ANONYMOUS, Unauthenticated)],
)
async def test_entries_need_read_access_to_the_audit_log(
    audit_log: AuditLogOperations, actor: Actor, error: type[TowlineError]
) -> None:
    with pytest.raises(error):
        await audit_log.page(actor, PageQuery(10))
    with pytest.raises(error):
        await audit_log.chains(actor)
    with pytest.raises(error):
        await anext(audit_log.export(actor, AuditFilter()))


async def test_the_ends_of_chains_need_read_access_to_the_whole_log(
    audit_log: AuditLogOperations,
) -> None:
    await audit_log.append([OF_DEV, OF_DEV, SIGN_IN])
    numbers = {chain.kind: chain.number for chain in await audit_log.chains(ADMIN)}
    assert (numbers[AuditKind.CHANGE], numbers[AuditKind.SIGN_IN]) == (2, 1)
    with pytest.raises(Forbidden):
        await audit_log.chains(person(BuiltInRole.ADMIN, "dana", Scope("cluster:dev")))


async def test_a_refused_call_is_an_entry(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    """Texts of a caller are cut to the length of their columns."""
    audit_log.record_refusal(NOBODY, "deleteCluster", "i" * 65, "r" * 65)
    assert await refusals(world) == []
    await audit_log.flush()
    (entry,) = await refusals(world)
    assert (entry.actor, entry.verdict) == (NOBODY.email, AuditVerdict.REFUSED)
    assert (entry.target_id, entry.request_id) == ("i" * 64, "r" * 64)


async def test_refused_calls_above_60_in_a_minute_are_one_entry_with_a_count(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    for _ in range(63):
        audit_log.record_refusal(NOBODY, "deleteCluster", "dev", "")
    audit_log.record_refusal(VIEWER, "deleteCluster", "dev", "")
    await audit_log.flush()
    assert len(await refusals(world)) == 61
    await world.clock.advance(60)
    await audit_log.flush()
    assert len(await refusals(world)) == 62
    assert (await refusals(world))[-1].detail["requests"] == 3


async def test_a_control_plane_that_ends_writes_counted_refusals(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    for _ in range(62):
        audit_log.record_refusal(NOBODY, "deleteCluster", "dev", "")
    await audit_log.flush(ending=True)
    assert (await refusals(world))[-1].detail["requests"] == 2


async def test_refusals_are_kept_while_the_store_cannot_be_written(
    world: MemoryOperations,
) -> None:
    store = ReadOnlyStore(world.context.store)
    audit_log = AuditLogOperations(replace(world.context, store=store))
    audit_log.record_refusal(NOBODY, "deleteCluster", "dev", "")
    for _ in range(2):
        with pytest.raises(Unavailable):
            await audit_log.flush()
    store.is_read_only = False
    await audit_log.flush()
    assert len(await refusals(world)) == 1
    store.is_read_only = True
    await audit_log.flush()
    assert len(await refusals(world)) == 1


async def test_expired_entries_are_deleted_by_kind(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    await audit_log.append([OF_DEV, OF_DEV])
    await audit_log.append([SIGN_IN])
    await world.clock.advance(2 * DAY.total_seconds())
    await audit_log.append([replace(OF_PROD, at=world.clock.now())])
    removed = await audit_log.expire({AuditKind.CHANGE: DAY, AuditKind.SIGN_IN: 3 * DAY})
    assert removed == 2
    actions = [action for _, action, _ in await world.audited()]
    assert actions.count("updateCluster") == actions.count("signIn") == 1
    assert await audit_log.expire({AuditKind.CHANGE: DAY}) == 0
    assert (await check_chains(world.store))[1] == []


async def test_all_expired_entries_are_deleted_however_many(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    """Each transaction deletes some, since it locks the chain."""
    ends: list[RequestEnd] = [(f"{number:032x}", 0.1, 1) for number in range(20_600)]
    many = RepeatedEntry(START, "ada", "kubernetes.get", AuditVerdict.ALLOWED, ends=ends)
    await audit_log.append([many])
    await world.clock.advance(2 * DAY.total_seconds())
    assert await audit_log.expire({AuditKind.REQUEST: DAY}) == 20_600
    assert await check_chains(world.store) == (2, [])  # The rows about the two deletions.


async def test_the_first_missing_entry_of_a_chain_is_found(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    await audit_log.append([OF_DEV, SIGN_IN])
    await audit_log.append([OF_PROD])
    await audit_log.append([OF_DEV])
    await audit_log.append([SIGN_IN])
    assert await check_chains(world.store) == (5, [])
    async with world.store.write() as tx:
        tx.connection.delete(audit_blocks, tx.connection.keys(audit_blocks, _is_second_change))
    rows, (broken,) = await check_chains(world.store)
    assert (rows, broken.kind, broken.number) == (3, AuditKind.CHANGE, 2)
    assert str(broken) == "change row 2: is missing"


def _is_second_change(row: Row) -> bool:
    return row["kind"] == "change" and row["last_number"] == 2


async def test_only_entries_that_are_left_count_as_verified(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    await audit_log.append([OF_DEV])
    await world.clock.advance(2 * DAY.total_seconds())
    await audit_log.append([replace(OF_PROD, at=world.clock.now())])
    assert await audit_log.expire({AuditKind.CHANGE: DAY}) == 1
    async with world.store.write() as tx:
        tx.connection.delete(audit_blocks, tx.connection.keys(audit_blocks, _is_expiry))
    rows, (broken,) = await check_chains(world.store)
    assert (rows, broken.number) == (1, 3)


class LogDuringExpiry:
    """A log that first tells the heads of its chains as they were before entries expired."""

    def __init__(self, log: AuditLog, heads: list[ChainHead]) -> None:
        self._log = log
        self._answers = [heads]
        self.blocks = log.blocks

    async def chains(self) -> list[ChainHead]:
        return self._answers.pop() if self._answers else await self._log.chains()


class StoreDuringExpiry:
    """A store whose audit log expires during its first read."""

    def __init__(self, store: Store, heads: list[ChainHead]) -> None:
        self._store = store
        self._heads = heads

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Any, None]:
        async with self._store.read() as tx:
            yield {AuditLog: LogDuringExpiry(tx[AuditLog], self._heads)}


async def test_entries_that_expire_during_the_verification_are_not_missing(
    world: MemoryOperations, audit_log: AuditLogOperations
) -> None:
    await audit_log.append([OF_DEV])
    await world.clock.advance(2 * DAY.total_seconds())
    await audit_log.append([replace(OF_PROD, at=world.clock.now())])
    before = await audit_log.chains(ADMIN)
    await audit_log.expire({AuditKind.CHANGE: DAY})
    store = cast(Store, StoreDuringExpiry(world.store, before))
    assert await check_chains(store) == (2, [])


def _is_expiry(row: Row) -> bool:
    return row["kind"] == "change" and row["last_number"] == 3
