"""Operations on many rows read them once, not once for each."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.model.overrides import OverrideLayer
from controlplane.configuration.operations.contexts import (
    ContextChange,
    ContextOverrideChange,
    ServiceContexts,
)
from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import Source
from controlplane.manifests.model.plan import ApplyOptions
from controlplane.manifests.operations.manifests import Manifests
from controlplane.platform.batch import BatchedStore
from controlplane.platform.context import OperationContext
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from tests import migrated
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_world import document, kind_operations
from tests.fakes.operations import make_cluster, operations_over_memory

URL = "https://git.example.org/fleet.git"
Counted = tuple[OperationContext, Counter[str]]


@pytest.fixture
async def counted(tmp_path: Path) -> AsyncIterator[Counted]:
    """Operations over SQLite, and the number of statements by verb and table."""
    engine, statements = make_engine(migrated.put_sqlite(tmp_path)), Counter[str]()

    @event.listens_for(engine.sync_engine, "before_cursor_execute")
    def on_statement(_connection: Any, _cursor: Any, text: str, *_more: Any) -> None:
        verb = text.split(None, 1)[0]
        statements.update(f"{verb} {table}" for table in _TABLES if table in text)

    store = SqlStore(engine, REPOSITORIES)
    yield replace(operations_over_memory().context, store=store), statements
    await engine.dispose()


_TABLES = ("context_overrides", "clusters", "services", "service_sources")


@pytest.mark.parametrize("count", [5, 50])
async def test_overrides_of_a_context_are_read_once(counted: Counted, count: int) -> None:
    context, statements = counted
    handles = [f"c{number}" for number in range(count)]
    async with context.store.write() as tx:
        for handle in handles:
            await tx[ClusterStore].add(make_cluster(handle))
    contexts, layer = ServiceContexts(context), OverrideLayer.CLUSTER
    for value in (1, 2):
        changes = [ContextOverrideChange(layer, handle, {"a": value}) for handle in handles]
        statements.clear()
        await contexts.save(ADMIN, "base", ContextChange(overrides=changes))
        assert statements["SELECT context_overrides"] <= 1
        assert statements["SELECT clusters"] <= count + 1


@pytest.mark.parametrize("count", [5, 50])
async def test_a_plan_has_the_same_statements_for_any_number_of_services(
    counted: Counted, count: int
) -> None:
    context, statements = counted
    context = replace(context, store=BatchedStore(context.store))
    manifests = Manifests(context, all_kinds(kind_operations(context)))

    async def apply(ref: str, *, dry_run: bool) -> Counter[str]:
        spec = {"namespace": "shop", "repository": URL, "ref": ref}
        services = (document("Service", f"s{n}", spec, cluster="c") for n in range(count))
        text = document("Cluster", "c") + document("GitRepository", URL) + "".join(services)
        statements.clear()
        plan = await manifests.apply(ADMIN, [Source("a", text)], ApplyOptions(dry_run=dry_run))
        assert plan.problems == () and len(plan.items) == count + 2
        return Counter({name: n for name, n in statements.items() if "service" in name})

    for ref in ("main", "next"):
        planned = await apply(ref, dry_run=True)
        applied = await apply(ref, dry_run=False)
        assert max(planned.total(), applied.total()) <= 20


async def test_rows_of_no_ids_are_not_asked_for(counted: Counted) -> None:
    context, statements = counted
    async with context.store.read() as tx:
        assert await tx[ClusterStore].by_ids(()) == []
        assert statements["SELECT clusters"] == 0
        assert await tx[ClusterStore].by_ids({"absent"}) == []
        assert statements["SELECT clusters"] == 1
