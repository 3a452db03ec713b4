"""The store: transactions over one engine."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.domain.access import Role
from controlplane.domain.bindings import AccessRequest, Binding, Project
from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusterjobs import ClusterJob
from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command
from controlplane.domain.contexts import ContextBinding, ServiceContext
from controlplane.domain.datakeys import DataKey
from controlplane.domain.deployment import DeploymentSettings
from controlplane.domain.dora import Deployment
from controlplane.domain.flow import ServiceExport, ServiceImport
from controlplane.domain.globals import GlobalOverride, GlobalService
from controlplane.domain.namespaces import ManagedNamespace
from controlplane.domain.notifications import NotificationKey, Router, Sink
from controlplane.domain.objects import DryRunResult
from controlplane.domain.overrides import ContextOverride
from controlplane.domain.people import Group, Login, Membership, Token, User
from controlplane.domain.promotion import (
    DeniedRevision,
    PipelineEvent,
    PipelineGate,
    PipelineRecord,
    PipelineService,
    PipelineTrigger,
)
from controlplane.domain.renderstate import RenderState
from controlplane.domain.repositories import Repository
from controlplane.domain.search import split_image
from controlplane.domain.secrets import Secret, SecretUse, SecretVersion
from controlplane.domain.services import Component, Revision, Service
from controlplane.domain.sets import ServiceSet
from controlplane.domain.signin import SignInChallenge, SignInFailures, TrustRule
from controlplane.domain.sources import ServiceSource
from controlplane.domain.tunnels import Replica, Tunnel
from controlplane.storage import definitions, flows, pipelines, secrets, tables
from controlplane.storage.audit import SqlAudit
from controlplane.storage.census import SqlMetricsSnapshot
from controlplane.storage.connection import StoreConnection, transaction, translate_errors
from controlplane.storage.deployments import SqlDeployments
from controlplane.storage.jobs import SqlJobs
from controlplane.storage.notifications import SqlDeliveries, SqlLedger, SqlNotifications
from controlplane.storage.rows import SqlReading, SqlRows, chunks
from controlplane.storage.search import SqlSearch
from controlplane.storage.services import SqlServices

_BATCH = 200


class SqlComponents(SqlReading[Component]):
    """The inventory on a connection."""

    async def upsert(self, components: Iterable[Component]) -> None:
        rows = [
            {name: getattr(component, name) for name in self._names} for component in components
        ]
        if not rows:
            return
        dialect = self._connection.dialect
        make = postgresql.insert if dialect == "postgresql" else sqlite.insert
        statement = make(self._table)
        changed = {name: statement.excluded[name] for name in self._names if name != "id"}
        statement = statement.on_conflict_do_update(index_elements=["id"], set_=changed)
        for start in range(0, len(rows), _BATCH):
            await self._connection.execute(statement, rows[start : start + _BATCH])
        await self._name_images({image for row in rows for image in row["images"]}, make)

    async def _name_images(self, found: Collection[str], make: Any) -> None:
        """Stores each image once, so that search compares versions without scanning its users.

        Clusters report the same images at the same time: one common order prevents deadlocks.
        """
        rows = [
            dict(zip(("image", "name", "tag"), (i, *split_image(i)), strict=True))
            for i in sorted(found)
        ]
        if rows:
            await self._connection.execute(make(tables.images).on_conflict_do_nothing(), rows)

    async def forget(self, ids: Collection[str]) -> None:
        for part in chunks(ids):
            await self._connection.execute(delete(self._table).where(self._table.c.id.in_(part)))

    async def forget_service(self, service_id: str) -> None:
        await self._connection.execute(
            delete(self._table).where(self._table.c.service_id == service_id)
        )

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        column, found = self._table.c.cluster_id, {}
        for part in chunks(clusters):
            counted = select(column, func.count()).where(column.in_(part)).group_by(column)
            found |= dict(map(tuple, await self._connection.execute(counted)))
        return found

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        column, found = self._table.c.service_id, defaultdict[str, set[str]](set)
        for part in chunks(services):
            named = select(column, self._table.c.id).where(column.in_(part))
            for row in await self._connection.execute(named):
                found[row.service_id].add(row.id)
        return found


class SqlTransaction:
    """The repositories of the store on one connection, each created at first use."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    async def complete(self) -> None:
        """Writes the audit rows, which come last in every transaction because their chains are
        locked.
        """
        if "audit" in self.__dict__:
            await self.audit.chain()

    @cached_property
    def clusters(self) -> SqlRows[Cluster]:
        return SqlRows(self._connection, tables.clusters, Cluster, ("handle", "name"))

    @cached_property
    def repositories(self) -> SqlRows[Repository]:
        return SqlRows(self._connection, tables.repositories, Repository, ("url",))

    @cached_property
    def services(self) -> SqlServices:
        return SqlServices(self._connection, tables.services, Service, ("name", "namespace"))

    @cached_property
    def render_states(self) -> SqlReading[RenderState]:
        return SqlReading(self._connection, tables.services, RenderState)

    @cached_property
    def contexts(self) -> SqlRows[ServiceContext]:
        return SqlRows(self._connection, tables.contexts, ServiceContext, ("name",))

    @cached_property
    def context_bindings(self) -> SqlRows[ContextBinding]:
        return SqlRows(self._connection, tables.context_bindings, ContextBinding)

    @cached_property
    def secrets(self) -> SqlRows[Secret]:
        return SqlRows(self._connection, secrets.secrets, Secret, ("name", "description"))

    @cached_property
    def secret_versions(self) -> SqlRows[SecretVersion]:
        return SqlRows(self._connection, secrets.secret_versions, SecretVersion)

    @cached_property
    def secret_uses(self) -> SqlRows[SecretUse]:
        return SqlRows(self._connection, secrets.secret_uses, SecretUse)

    @cached_property
    def service_exports(self) -> SqlRows[ServiceExport]:
        return SqlRows(self._connection, flows.service_exports, ServiceExport)

    @cached_property
    def service_imports(self) -> SqlRows[ServiceImport]:
        return SqlRows(self._connection, flows.service_imports, ServiceImport)

    @cached_property
    def context_overrides(self) -> SqlRows[ContextOverride]:
        return SqlRows(self._connection, flows.context_overrides, ContextOverride)

    @cached_property
    def data_keys(self) -> SqlRows[DataKey]:
        return SqlRows(self._connection, secrets.data_keys, DataKey)

    @cached_property
    def service_sources(self) -> SqlRows[ServiceSource]:
        return SqlRows(self._connection, tables.service_sources, ServiceSource)

    @cached_property
    def deployment_settings(self) -> SqlRows[DeploymentSettings]:
        return SqlRows(self._connection, tables.deployment_settings, DeploymentSettings)

    @cached_property
    def revisions(self) -> SqlRows[Revision]:
        return SqlRows(self._connection, tables.revisions, Revision, ("sha", "subject"))

    @cached_property
    def components(self) -> SqlComponents:
        return SqlComponents(self._connection, tables.components, Component, ("name",))

    @cached_property
    def plans(self) -> SqlRows[DryRunResult]:
        return SqlRows(self._connection, tables.plans, DryRunResult)

    @cached_property
    def pipelines(self) -> SqlRows[PipelineRecord]:
        return SqlRows(self._connection, tables.pipelines, PipelineRecord, ("name",))

    @cached_property
    def pipeline_services(self) -> SqlRows[PipelineService]:
        return SqlRows(self._connection, pipelines.pipeline_services, PipelineService)

    @cached_property
    def pipeline_events(self) -> SqlRows[PipelineEvent]:
        return SqlRows(self._connection, pipelines.pipeline_events, PipelineEvent)

    @cached_property
    def pipeline_gates(self) -> SqlRows[PipelineGate]:
        return SqlRows(self._connection, pipelines.pipeline_gates, PipelineGate)

    @cached_property
    def pipeline_triggers(self) -> SqlRows[PipelineTrigger]:
        return SqlRows(self._connection, pipelines.pipeline_triggers, PipelineTrigger)

    @cached_property
    def refused(self) -> SqlRows[DeniedRevision]:
        return SqlRows(self._connection, pipelines.refused_revisions, DeniedRevision)

    @cached_property
    def users(self) -> SqlRows[User]:
        return SqlRows(self._connection, tables.users, User, ("email", "name"))

    @cached_property
    def tokens(self) -> SqlRows[Token]:
        return SqlRows(self._connection, tables.tokens, Token, ("name",))

    @cached_property
    def groups(self) -> SqlRows[Group]:
        return SqlRows(self._connection, tables.groups, Group, ("name",))

    @cached_property
    def memberships(self) -> SqlRows[Membership]:
        return SqlRows(self._connection, tables.memberships, Membership)

    @cached_property
    def logins(self) -> SqlRows[Login]:
        return SqlRows(self._connection, tables.logins, Login)

    @cached_property
    def projects(self) -> SqlRows[Project]:
        return SqlRows(self._connection, tables.projects, Project, ("name",))

    @cached_property
    def roles(self) -> SqlRows[Role]:
        return SqlRows(self._connection, tables.roles, Role, ("name",))

    @cached_property
    def bindings(self) -> SqlRows[Binding]:
        return SqlRows(self._connection, tables.role_bindings, Binding)

    @cached_property
    def access_requests(self) -> SqlRows[AccessRequest]:
        return SqlRows(self._connection, tables.access_requests, AccessRequest)

    @cached_property
    def challenges(self) -> SqlRows[SignInChallenge]:
        return SqlRows(self._connection, tables.challenges, SignInChallenge)

    @cached_property
    def failures(self) -> SqlRows[SignInFailures]:
        return SqlRows(self._connection, tables.failures, SignInFailures)

    @cached_property
    def trust_rules(self) -> SqlRows[TrustRule]:
        return SqlRows(self._connection, tables.trust_rules, TrustRule)

    @cached_property
    def commands(self) -> SqlRows[Command]:
        return SqlRows(self._connection, tables.commands, Command)

    @cached_property
    def cluster_jobs(self) -> SqlRows[ClusterJob]:
        return SqlRows(self._connection, tables.cluster_jobs, ClusterJob)

    @cached_property
    def replicas(self) -> SqlRows[Replica]:
        return SqlRows(self._connection, tables.replicas, Replica)

    @cached_property
    def tunnels(self) -> SqlRows[Tunnel]:
        return SqlRows(self._connection, tables.tunnels, Tunnel)

    @cached_property
    def cluster_groups(self) -> SqlRows[ClusterGroup]:
        return SqlRows(self._connection, definitions.cluster_groups, ClusterGroup, ("name",))

    @cached_property
    def globals(self) -> SqlRows[GlobalService]:
        return SqlRows(self._connection, definitions.global_services, GlobalService, ("name",))

    @cached_property
    def overrides(self) -> SqlRows[GlobalOverride]:
        return SqlRows(self._connection, definitions.global_overrides, GlobalOverride)

    @cached_property
    def sets(self) -> SqlRows[ServiceSet]:
        return SqlRows(self._connection, definitions.service_sets, ServiceSet, ("name",))

    @cached_property
    def namespaces(self) -> SqlRows[ManagedNamespace]:
        table = definitions.managed_namespaces
        return SqlRows(self._connection, table, ManagedNamespace, ("name", "namespace"))

    @cached_property
    def ledger(self) -> SqlLedger:
        return SqlLedger(self._connection, self.notifications)

    @cached_property
    def audit(self) -> SqlAudit:
        return SqlAudit(self._connection)

    @cached_property
    def notifications(self) -> SqlNotifications:
        return SqlNotifications(self._connection)

    @cached_property
    def marks(self) -> SqlRows[NotificationKey]:
        return SqlRows(self._connection, tables.notification_marks, NotificationKey)

    @cached_property
    def sinks(self) -> SqlRows[Sink]:
        return SqlRows(self._connection, tables.notification_sinks, Sink, ("name", "host"))

    @cached_property
    def routers(self) -> SqlRows[Router]:
        return SqlRows(self._connection, tables.notification_routers, Router, ("name",))

    @cached_property
    def deliveries(self) -> SqlDeliveries:
        return SqlDeliveries(self._connection)

    @cached_property
    def deployments(self) -> SqlDeployments:
        return SqlDeployments(self._connection, tables.deployments, Deployment)

    @cached_property
    def search(self) -> SqlSearch:
        return SqlSearch(self._connection)

    @cached_property
    def jobs(self) -> SqlJobs:
        return SqlJobs(self._connection)

    @cached_property
    def census(self) -> SqlMetricsSnapshot:
        return SqlMetricsSnapshot(self._connection)


class SqlStore:
    """Implements `Store` over an engine of either dialect."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        is_sqlite = engine.dialect.name == "sqlite"
        self._writer = asyncio.Lock() if is_sqlite else nullcontext()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[SqlTransaction, None]:
        """Opens a read-only transaction; writers do not wait for it. Raises Unavailable as `write`
        does.
        """
        with translate_errors("read"):
            async with transaction(self._engine, read_only=True) as connection:
                yield SqlTransaction(connection)

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[SqlTransaction, None]:
        """Opens a writing transaction. Raises Unavailable if the database cannot be written now."""
        with translate_errors("written"):
            async with self._writer, transaction(self._engine, read_only=False) as connection:
                tx = SqlTransaction(connection)
                yield tx
                await tx.complete()

    async def close(self) -> None:
        """Closes all connections."""
        await self._engine.dispose()
