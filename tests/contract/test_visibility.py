"""Lists show the rows of scopes that may be seen, on either database."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import PageQuery, Store
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Invalid
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PROJECTS = {"c1": "shop", "c2": "shop", "c3": None}


async def fill(store: Store) -> None:
    """Three clusters, one of them without a project, each with a service and a ledger row."""
    async with store.write() as tx:
        for id, project in PROJECTS.items():
            cluster = ClusterId(id)
            await tx[ClusterStore].add(Cluster(cluster, id, id, NOW, NOW, project_id=project))
            service = Service(
                ServiceId(f"s-{id}"), cluster, None, "web", "web", NOW, NOW, project_id=project
            )
            await tx[ServiceStore].add(service)
            await tx[LedgerStore].append([LedgerEntry(service.id, id, LedgerStage.CREATED, NOW)])


def seen(*scopes: str) -> frozenset[Scope]:
    return frozenset(Scope(one) for one in scopes)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ((), ["c1", "c2", "c3"]),
        ((seen(),), []),
        ((seen("project:shop"),), ["c1", "c2"]),
        ((seen(f"project:{DEFAULT_PROJECT}"),), ["c3"]),
        ((seen("cluster:c2", f"project:{DEFAULT_PROJECT}"),), ["c2", "c3"]),
        ((seen("project:shop"), seen("cluster:c2", "cluster:c3")), ["c2"]),
        ((seen("project:other", "pipeline:c1", "nonsense"),), []),
    ],
)
async def test_rows_of_visible_scopes_are_shown(
    store: Store, visible: tuple[frozenset[Scope], ...], expected: list[str]
) -> None:
    """Clusters, their services, and what the ledger has of them."""
    await fill(store)
    query = PageQuery(visible=visible)
    async with store.read() as tx:
        clusters = (await tx[ClusterStore].page(query)).items
        services = (await tx[ServiceStore].page(query)).items
        entries = (await tx[LedgerStore].page(query)).items
    assert [one.id for one in clusters] == expected
    assert [one.cluster_id for one in services] == expected
    assert [one.cluster_id for one in entries] == expected


async def test_a_role_on_one_service_shows_that_service(store: Store) -> None:
    """And nothing of its cluster."""
    await fill(store)
    query = PageQuery(visible=(seen("service:s-c2"),))
    async with store.read() as tx:
        assert [one.id for one in (await tx[ServiceStore].page(query)).items] == ["s-c2"]
        assert [one.service_id for one in (await tx[LedgerStore].page(query)).items] == ["s-c2"]
        assert (await tx[ClusterStore].page(query)).items == ()


async def test_a_cursor_does_not_tell_where_a_hidden_row_stands(store: Store) -> None:
    """By name, what follows it would tell its name; it reads like one that was never there."""
    await fill(store)
    query = PageQuery(visible=(seen("project:shop"),), order="handle")
    async with store.read() as tx:
        assert [
            one.id for one in (await tx[ClusterStore].page(replace(query, after="c1"))).items
        ] == ["c2"]
        for hidden in ("c3", "never"):
            with pytest.raises(Invalid, match="start again"):
                await tx[ClusterStore].page(replace(query, after=hidden))
