"""Lists show rows with labels: of manifests, and for clusters and services tags as well."""

from datetime import UTC, datetime

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.ports import ProjectStore
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.labels import parse_selector
from controlplane.platform.ports import PageQuery, Store
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LABELS = {"dev": {"team": "a"}, "dev-web": {"team": "b", "tier": "web"}, "shop": {"team": "a"}}


async def fill(store: Store) -> None:
    """Two clusters with a service each, and a project; the declared ones have labels."""
    async with store.write() as tx:
        for name in ("dev", "prod"):
            row = Cluster(ClusterId(name), name, name, NOW, NOW, tags={"env": name})
            await tx[ClusterStore].add(row)
            id = ServiceId(f"{name}-web")
            await tx[ServiceStore].add(Service(id, row.id, None, "web", "web", NOW, NOW))
        await tx[ProjectStore].add(Project("shop", "shop", NOW, NOW))
        for id, labels in LABELS.items():
            await tx[DeclaredResourceStore].add(DeclaredResource(id, "Any", labels))


@pytest.mark.parametrize(
    ("selector", "clusters", "services", "projects"),
    [
        ("", ["dev", "prod"], ["dev-web", "prod-web"], ["default", "shop"]),
        ("team=a", ["dev"], [], ["shop"]),
        ("team==b", [], ["dev-web"], []),
        ("env=prod", ["prod"], ["prod-web"], []),
        ("env=dev,tier=web", [], ["dev-web"], []),
        ("team!=a", ["prod"], ["dev-web", "prod-web"], ["default"]),
        ("team", ["dev"], ["dev-web"], ["shop"]),
        ("!team", ["prod"], ["prod-web"], ["default"]),
        ("env,!tier", ["dev", "prod"], ["prod-web"], []),
        ("team in (a,b)", ["dev"], ["dev-web"], ["shop"]),
        ("team notin (b,c)", ["dev", "prod"], ["prod-web"], ["default", "shop"]),
        ("env in (dev,prod),team notin (a)", ["prod"], ["dev-web", "prod-web"], []),
        ("env in (test)", [], [], []),
    ],
)
async def test_a_selector_finds_rows(
    store: Store, selector: str, clusters: list[str], services: list[str], projects: list[str]
) -> None:
    query = PageQuery(labels=parse_selector(selector))
    await fill(store)
    async with store.read() as tx:
        assert [row.id for row in (await tx[ClusterStore].page(query)).items] == clusters
        assert [row.id for row in (await tx[ServiceStore].page(query)).items] == services
        assert [row.name for row in (await tx[ProjectStore].page(query)).items] == projects
        assert [row.name for row in await tx[ProjectStore].with_labels(query.labels)] == projects
        fleet = await tx[ServiceStore].fleet_map(query)
        assert [f"{row.id}-web" for row in fleet if row.status_codes] == services
