"""Waves over many clusters: none skipped, none given twice, and the ledger has exactly them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.store.repositories import REPOSITORIES
from tests import migrated
from tests.fakes.rollout import FleetRollout

CLUSTERS, WAVE = 60, 10


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """An empty store."""
    opened = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    yield opened
    await opened.close()


def names(rows: list[LedgerEntry]) -> list[str]:
    return [one.service_id for one in rows]


async def test_no_cluster_is_skipped_or_doubled(store: SqlStore) -> None:
    """Whoever works dies amid it, or wakes up when another has done it long ago."""
    fleet = FleetRollout(store, CLUSTERS, WAVE, seed=1)
    await fleet.prepare()
    await fleet.run()
    services = await fleet.services()
    assert {one.desired.generation for one in services} == {1}, "given twice"
    assert fleet.died > 0
    everybody = sorted(one.id for one in services)
    promoted, healthy = (
        await fleet.ledger(LedgerStage.PROMOTED),
        await fleet.ledger(LedgerStage.HEALTHY),
    )
    assert sorted(names(promoted)) == sorted(names(healthy)) == everybody
    for start in range(WAVE, CLUSTERS, WAVE):
        before = {one.service_id for one in promoted[:start]}
        ended = max(one.id or 0 for one in healthy if one.service_id in before)
        assert all((one.id or 0) > ended for one in promoted[start:]), "a wave overtook another"
