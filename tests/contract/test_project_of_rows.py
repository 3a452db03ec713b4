"""Each row of a project names it; only what can belong to the installation has none."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.access.ports import ProjectStore
from controlplane.authorization import DEFAULT_PROJECT
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import PageQuery, Store
from controlplane.platform.store.schema import metadata
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.ports import SecretStore
from core.identity import ClusterId, RepositoryId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OF_INSTALLATION = {
    *("cluster_groups", "global_services", "service_sets", "managed_namespaces"),
    *("saved_views", "refused_revisions"),
}
"""Without a project, such a row is of the whole installation."""
ROWS: dict[Any, Any] = {
    ClusterStore: Cluster(ClusterId("c"), "c", "c", NOW, NOW),
    RepositoryStore: Repository(RepositoryId("r"), "https://git.example.org/r", NOW, NOW),
    SecretStore: Secret("s", "s", NOW, NOW),
}


def test_only_rows_of_the_installation_may_lack_a_project() -> None:
    tables = [table for table in metadata.tables.values() if "project_id" in table.c]
    assert len(tables) > len(OF_INSTALLATION)
    lacking = {table.name for table in tables if table.c.project_id.nullable}
    assert lacking == OF_INSTALLATION


@pytest.mark.parametrize("port", ROWS, ids=lambda port: port.__name__)
async def test_a_row_without_a_choice_is_in_the_default_project(store: Store, port: Any) -> None:
    async with store.write() as tx:
        await tx[port].add(ROWS[port])
    async with store.read() as tx:
        assert await tx[ProjectStore].get(DEFAULT_PROJECT) is not None
        assert await tx[port].of_project(DEFAULT_PROJECT) == [ROWS[port]]
        page = await tx[port].page(PageQuery(equals={"project_id": DEFAULT_PROJECT}))
        assert page.items == (ROWS[port],)


@pytest.mark.parametrize("port", ROWS, ids=lambda port: port.__name__)
async def test_a_row_without_a_project_is_not_stored(store: Store, port: Any) -> None:
    with pytest.raises(Exception, match="project_id"):
        async with store.write() as tx:
            await tx[port].add(replace(ROWS[port], project_id=None))
    async with store.read() as tx:
        assert await tx[port].all() == []
