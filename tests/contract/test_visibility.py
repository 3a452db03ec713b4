"""Lists show the rows of scopes that may be seen, on either database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.ports import ProjectStore
from controlplane.authorization import DEFAULT_PROJECT, Actor, ResourceKind, Scope, Verb
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.ports import ContextStore
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.generators.ports import (
    GlobalServiceStore,
    ManagedNamespaceStore,
    ServiceSetStore,
)
from controlplane.notifications.model.notification import Router, Sink
from controlplane.notifications.ports import RouterStore, SinkStore
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.ports import PageQuery, Store, Transaction
from controlplane.reports.ports import DeploymentStore, ReportFilter
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.search.model import parse_search
from controlplane.search.ports import SearchStore
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.ports import SecretStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Component, Service
from controlplane.services.ports import ComponentStore, LedgerStore, ServiceStore
from core.errors import Invalid
from core.identity import ClusterId, RepositoryId, ServiceId
from tests.fakes.actors import person

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PROJECTS = {"c1": "shop", "c2": "shop", "c3": DEFAULT_PROJECT}


async def fill(store: Store) -> None:
    """Three clusters, one of them in the default project, each with a service and a ledger row."""
    async with store.write() as tx:
        for id, project in PROJECTS.items():
            cluster = ClusterId(id)
            await tx[ClusterStore].add(Cluster(cluster, id, id, NOW, NOW, project_id=project))
            service = Service(
                ServiceId(f"s-{id}"), cluster, None, "web", "web", NOW, NOW, project_id=project
            )
            await tx[ServiceStore].add(service)
            await tx[LedgerStore].append([LedgerEntry.of(service, LedgerStage.CREATED, NOW)])


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


LISTED: tuple[Any, ...] = (
    *(ProjectStore, ClusterStore, ClusterGroupStore, ServiceStore, PipelineStore, RepositoryStore),
    *(ContextStore, SecretStore, GlobalServiceStore, ServiceSetStore, ManagedNamespaceStore),
    *(SinkStore, RouterStore),
)
TENANTS = {"a": "a", "b": "b", "main": DEFAULT_PROJECT}
"""Projects, by a short name."""
SCOPES = [
    *(f"project:{project}" for project in TENANTS.values()),
    *(f"{kind}:{kind}-{id}" for kind in ("cluster", "pipeline", "repository") for id in "ab"),
    *(f"service:{service}-on-{cluster}" for service in "ab" for cluster in "ab"),
]


def actor_in(scope: str) -> Actor:
    """A viewer of everything below a scope."""
    return person(BuiltInRole.VIEWER, scope=Scope(scope))


async def add_resources(tx: Transaction) -> None:
    """One resource of each kind in each project, and of some kinds one in no project."""
    for id, project in TENANTS.items():
        of_tenant = None if project == DEFAULT_PROJECT else project
        if of_tenant:
            await tx[ProjectStore].add(Project(id, id, NOW, NOW))
        cluster = ClusterId(f"cluster-{id}")
        await tx[ClusterStore].add(Cluster(cluster, id, id, NOW, NOW, project_id=project))
        repository = RepositoryId(f"repository-{id}")
        await tx[RepositoryStore].add(Repository(repository, id, NOW, NOW, project_id=project))
        named = (id, NOW, NOW)
        record = PipelineRecord(f"pipeline-{id}", *named, project_id=project)
        await tx[PipelineStore].add(record)
        await tx[ContextStore].add(ServiceContext(f"context-{id}", *named, project_id=project))
        await tx[SecretStore].add(Secret(f"secret-{id}", *named, project_id=project))
        await tx[ClusterGroupStore].add(ClusterGroup(f"group-{id}", *named, project_id=of_tenant))
        await tx[GlobalServiceStore].add(GlobalService(f"global-{id}", *named, of_tenant))
        await tx[ServiceSetStore].add(ServiceSet(f"set-{id}", *named, of_tenant))
        namespace = ManagedNamespace(f"namespace-{id}", *named, of_tenant)
        await tx[ManagedNamespaceStore].add(namespace)
        sink = Sink(f"sink-{id}", *named, "slack", of_tenant or "", repository_id="repository-a")
        await tx[SinkStore].add(sink)
        await tx[RouterStore].add(Router(f"router-{id}", *named, of_tenant or ""))


async def add_services(tx: Transaction) -> list[Service]:
    """A service of each project on each cluster, all from one repository, with their histories."""
    added = []
    for owner, place in product(TENANTS, TENANTS):
        service = Service(
            ServiceId(f"{owner}-on-{place}"),
            ClusterId(f"cluster-{place}"),
            RepositoryId("repository-a"),
            f"web-{owner}",
            "web",
            NOW,
            NOW,
            project_id=TENANTS[owner],
        )
        await tx[ServiceStore].add(service)
        rendered = LedgerEntry.of(service, LedgerStage.RENDERED, NOW)
        removed = LedgerEntry.of(service, LedgerStage.REMOVED, NOW)
        await tx[LedgerStore].append([replace(rendered, sequence=1, sha="a" * 40), removed])
        component = Component(
            *(f"component-{service.id}", service.id, service.cluster_id, "", "v1", "ConfigMap"),
            *("web", "web", "", "", None, "", True, (), NOW),
        )
        await tx[ComponentStore].upsert([component])
        added.append(service)
    return added


@pytest.mark.parametrize("scope", SCOPES)
async def test_lists_show_what_the_actor_may_read(store: Store, scope: str) -> None:
    async with store.write() as tx:
        await add_resources(tx)
        await add_services(tx)
    actor = actor_in(scope)
    async with store.read() as tx:
        for port in LISTED:
            everything = (await tx[port].page(PageQuery(100))).items
            readable = {row.id for row in everything if actor.may(Verb.READ, row.target)}
            assert everything
            kind = everything[0].target.kind
            query = PageQuery(100, visible=actor.policy.visible(kind))
            assert {row.id for row in (await tx[port].page(query)).items} == readable, port


@pytest.mark.parametrize("scope", SCOPES)
async def test_histories_and_objects_are_as_visible_as_their_service(
    store: Store, scope: str
) -> None:
    """Also after the service is gone: a project keeps its history, on clusters of any project."""
    async with store.write() as tx:
        await add_resources(tx)
        added = await add_services(tx)
    actor = actor_in(scope)
    visible = actor.policy.visible(ResourceKind.SERVICE)
    readable = {service.id for service in added if actor.may(Verb.READ, service.target)}
    until = NOW + timedelta(days=1)
    async with store.read() as tx:
        hits = await tx[SearchStore].objects(parse_search("web"), visible, 100, None)
        changed = await tx[ServiceStore].changed_since(NOW, visible, 100)
    assert {hit.component.service_id for hit in hits.items} == readable
    assert set(changed) == readable
    async with store.write() as tx:
        for service in added:
            await tx[ComponentStore].forget_service(service.id)
            await tx[ServiceStore].remove(service.id)
    async with store.read() as tx:
        entries = (await tx[LedgerStore].page(PageQuery(100, visible=visible))).items
        deployments = await tx[DeploymentStore].deployments_of_commit("a" * 40, visible)
        figures = await tx[DeploymentStore].figures(NOW, until, ReportFilter(), visible)
        gone = await tx[ServiceStore].changed_since(NOW, visible, 100)
    assert {entry.service_id for entry in entries} == readable
    assert {one.service_id for one in deployments} == readable
    assert figures.counts.begun == len(readable)
    assert set(gone) == readable
