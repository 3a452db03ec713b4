"""Verbs that the rows of all tables have."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.authorization import Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.ports import ANY, AuditTrail, Store
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from core.identity import RepositoryId
from core.spec.source import Commit
from tests.fakes.audit_rows import audit_rows
from tests.fakes.operations import make_cluster

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
COMMITS = {"main": Commit("c" * 40, "Ada", "Begin", NOW)}
TICK = timedelta(microseconds=1)
# More than one statement holds.
MANY = [f"c{number:04}" for number in range(501)]


async def add(store: Store, *rows: Cluster) -> None:
    async with store.write() as tx:
        await tx[ClusterStore].add_each(rows)


def ids(rows: Sequence[Cluster]) -> list[str]:
    return [row.id for row in rows]


async def test_many_rows_are_added_locked_read_and_removed_together(store: Store) -> None:
    await add(store, *map(make_cluster, MANY), make_cluster("other"))
    async with store.write() as tx:
        clusters = tx[ClusterStore]
        assert ids(await clusters.lock(reversed_set(MANY))) == MANY
        assert await clusters.count() == len(MANY) + 1
        assert not tx.has_writes
        await clusters.remove_each([*MANY, "none"])
        await clusters.remove_each([])
        assert tx.has_writes
        assert ids(await clusters.all()) == ["other"]
        assert await clusters.count() == 1


def reversed_set(values: Sequence[str]) -> Collection[str]:
    """Values in an order that is not theirs."""
    return dict.fromkeys(reversed(values)).keys()


async def test_deleted_rows_are_not_locked(store: Store) -> None:
    await add(store, make_cluster("a"), make_cluster("b", deleted_at=NOW), make_cluster("c"))
    async with store.write() as tx:
        assert ids(await tx[ClusterStore].lock(["c", "b", "a", "none"])) == ["a", "c"]


async def test_rows_are_selected_by_their_times(store: Store) -> None:
    times = {"never": None, "before": NOW - TICK, "now": NOW, "after": NOW + TICK}
    await add(store, *(make_cluster(id, pinged_at=at) for id, at in times.items()))
    async with store.read() as tx:
        assert set(ids(await tx[ClusterStore].past("pinged_at", NOW))) == {"before", "now"}
        columns = ("pinged_at", "deleted_at")
        assert set(await tx[ClusterStore].since(columns, NOW, (), 10)) == {"now", "after"}
        assert len(await tx[ClusterStore].since(columns, NOW, (), 1)) == 1
    async with store.write() as tx:
        await tx[ClusterStore].remove_before("pinged_at", NOW)
        assert ids(await tx[ClusterStore].all()) == ["after", "never"]


async def test_changes_include_deletions_in_visible_scopes(store: Store) -> None:
    gone = make_cluster("gone", deleted_at=NOW)
    await add(store, gone, make_cluster("hidden", deleted_at=NOW), make_cluster("kept"))
    visible = (frozenset({Scope("cluster:gone"), Scope("cluster:kept")}),)
    async with store.read() as tx:
        assert await tx[ClusterStore].since(("deleted_at",), NOW, visible, 10) == ["gone"]


def group(id: str, **columns: Any) -> ClusterGroup:
    return replace(ClusterGroup(id, id, NOW, NOW), **columns)


GROUPS = (
    group("a", max_changing=0),
    group("b", max_changing=1, frozen=True),
    group("c", max_changing=3),
)


@pytest.mark.parametrize(
    ("equals", "found"),
    [
        ({}, "abc"),
        ({"id": "b"}, "b"),
        ({"id": "B"}, ""),
        ({"id": ["c", "a", "none"]}, "ac"),
        ({"id": {"a": 1, "b": 2}.keys()}, "ab"),
        ({"id": ["b"], "frozen": False}, ""),
        ({"id": []}, ""),
        ({"id": ANY}, "abc"),
        ({"frozen": True}, "b"),
        ({"max_changing": 0}, "a"),
        ({"max_changing": range(1, 3)}, "b"),
        ({"max_changing": range(1, 4)}, "bc"),
        ({"inserted_at": NOW}, "abc"),
        ({"inserted_at": NOW + TICK}, ""),
    ],
)
async def test_rows_are_found_by_columns(store: Store, equals: dict[str, Any], found: str) -> None:
    async with store.write() as tx:
        await tx[ClusterGroupStore].add_each(GROUPS)
    first = found[0] if found else None
    for open_transaction in (store.read, store.write):
        async with open_transaction() as tx:
            groups = tx[ClusterGroupStore]
            for _ in range(2):
                assert [row.id for row in await groups.select(**equals)] == [*found]
            if len(found) < 2:
                for find in (groups.find, groups.find_unlocked):
                    row = await find(**equals)
                    assert (row and row.id) == first


async def test_an_absent_value_is_a_value_and_deleted_rows_are_asked_for(store: Store) -> None:
    await add(
        store,
        make_cluster("a"),
        make_cluster("b", pinged_at=NOW),
        make_cluster("c", deleted_at=NOW),
    )
    async with store.write() as tx:
        clusters = tx[ClusterStore]
        assert ids(await clusters.select(pinged_at=None)) == ["a"]
        assert ids(await clusters.select(pinged_at=ANY)) == ["a", "b"]
        assert ids(await clusters.select(pinged_at=None, deleted_at=ANY)) == ["a", "c"]
        assert ids(await clusters.select(deleted_at=NOW)) == ["c"]
        assert await clusters.find(id="c") is None
        assert await clusters.find(id="c", deleted_at=NOW) is not None


async def test_digests_tell_bytes_and_nested_values_apart(store: Store) -> None:
    row = Repository(RepositoryId("r"), "https://example.org/x.git", NOW, NOW, sealed=b"\x00")
    others = (replace(row, sealed=b"\x01"), replace(row, sealed=b"\x01", commits=COMMITS))

    async def digests() -> tuple[str, str]:
        async with store.read() as tx:
            newest = (await audit_rows(tx))[-1]
        return newest.before_digest, newest.after_digest

    async def audited(write: str, *arguments: object) -> tuple[str, str]:
        async with store.write() as tx:
            repositories = tx[RepositoryStore]
            await repositories.get(row.id)
            await getattr(repositories, write)(*arguments)
            entry = AuditEntry(NOW, "ada", write, AuditVerdict.ALLOWED, target_id=row.id)
            await tx[AuditTrail].append([entry])
        return await digests()

    states = [await audited("add", row)]
    states += [await audited("put", other) for other in others]
    states += [await audited("remove", row.id)]
    assert [before for before, _ in states] == ["", *(after for _, after in states[:-1])]
    assert states[-1][1] == ""
    known = {after for _, after in states[:-1]}
    assert {len(digest) for digest in known} == {64} and len(known) == 3
