"""Delivery metrics of services with a label: of their manifests, or a tag of their cluster."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.authorization import Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.labels import parse_selector
from controlplane.platform.ports import Store
from controlplane.reports.ports import DeploymentStore, DesiredBetween, ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LABELS = {"web": {"team": "shop"}, "api": {"team": "shop", "tier": "back"}, "job": {"team": "ops"}}


async def fill(store: Store) -> None:
    """Four services in two clusters with one deployment each; `bare` has no labels of its own."""
    async with store.write() as tx:
        for name in ("dev", "prod"):
            row = Cluster(ClusterId(name), name, name, NOW, NOW, tags={"env": name})
            await tx[ClusterStore].add(row)
        for name, place in (("web", "dev"), ("api", "prod"), ("job", "prod"), ("bare", "dev")):
            row = Service(ServiceId(name), ClusterId(place), None, name, name, NOW, NOW)
            await tx[ServiceStore].add(row)
            entry = LedgerEntry.of(row, LedgerStage.RENDERED, NOW)
            await tx[LedgerStore].append([replace(entry, sequence=1, sha="a" * 40)])
        for id, labels in LABELS.items():
            await tx[DeclaredResourceStore].add(DeclaredResource(id, "ServiceDeployment", labels))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("", ["api", "bare", "job", "web"]),
        ("team=shop", ["api", "web"]),
        ("team=shop,tier", ["api"]),
        ("team,env=dev", ["web"]),
        ("!team", ["bare"]),
        ("env in (prod)", ["api", "job"]),
        ("team=nobody", []),
    ],
)
async def test_reports_count_services_with_labels(
    store: Store, selector: str, found: list[str]
) -> None:
    await fill(store)
    within = ReportFilter(labels=parse_selector(selector))
    async with store.read() as tx:
        deployments = tx[DeploymentStore]
        figures = await deployments.figures(NOW, NOW + timedelta(days=1), within, ())
        newest = await deployments.newest(within, (), 10, DesiredBetween())
        moment = await deployments.at(NOW, within, (), 10)
    assert figures.counts.begun == len(found)
    assert sorted(row.service_id for row in newest) == found
    assert sorted(row.service_id for row in moment) == found


@pytest.mark.parametrize(
    ("key", "values"),
    [("team", ["ops", "shop"]), ("tier", ["back"]), ("env", ["dev", "prod"]), ("owner", [])],
)
async def test_the_values_of_a_label_are_those_of_visible_services(
    store: Store, key: str, values: list[str]
) -> None:
    await fill(store)
    async with store.read() as tx:
        deployments = tx[DeploymentStore]
        assert await deployments.label_values(key, (), 10) == values
        assert await deployments.label_values(key, (), 1) == values[:1]
        assert (
            await deployments.label_values(key, (frozenset({Scope("service:nothing")}),), 10) == []
        )


async def test_values_of_hidden_services_stay_hidden(store: Store) -> None:
    await fill(store)
    async with store.read() as tx:
        visible = (frozenset({Scope("cluster:dev")}),)
        assert await tx[DeploymentStore].label_values("team", visible, 10) == ["shop"]
        assert await tx[DeploymentStore].label_values("env", visible, 10) == ["dev"]
