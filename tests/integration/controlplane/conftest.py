"""A control plane without edges: real store, fake git cache, a clock that tests move."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.users import Users
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.operations.sessions import AgentHello
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.ports import ClusterStore
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.pipelines.operations.denied_revisions import RevisionDenials
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import ServiceFences
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.store.repositories import REPOSITORIES
from core.sealing import SealingKey
from core.spec.facts import ClusterFacts
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem, SyncStatus
from tests import migrated
from tests.fakes.actors import person
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests
from tests.servers.postgres import Postgres


@dataclass
class World:
    """All verbs over one store."""

    deps: OperationContext
    manifests: FakeManifests
    clock: FakeClock

    def __post_init__(self) -> None:
        self.admin = person(Role.ADMIN, "root")
        self.identity = CredentialAuthenticator(self.deps, DeployTokenReader(self.deps.store))
        self.people = Users(self.deps)
        self.accounts = ServiceAccounts(self.deps)
        self.groups = Groups(self.deps)
        self.projects = Projects(self.deps, ServiceFences())
        self.roles = Roles(self.deps)
        self.bindings = RoleBindings(self.deps)
        self.permissions = Permissions(self.deps)
        self.requests = AccessRequests(self.deps)
        self.clusters = Clusters(self.deps)
        self.repositories = RepositoryOperations(self.deps)
        self.services = Services(self.deps, SERVICE_PARTS)
        self.delivery = RenderReconciler(self.deps)
        self.agents = AgentOperations(self.deps)
        self.agent_key = SealingKey.from_bytes(b"a" * 32)
        self.logs = LiveLogs()
        self.jobs = ClusterJobs(self.deps, self.logs)
        self.interventions = AgentCommands(self.deps)
        self.records = AuditLogOperations(self.deps)
        self.pipelines = Pipelines(self.deps)
        self.decisions = ReleaseDecisions(self.deps, self.pipelines)
        self.denials = RevisionDenials(self.deps, self.pipelines.engine)
        self.promotions = Promotions(self.deps, self.pipelines.engine)

    async def cluster(self, name: str = "dev", *, connected: bool = True) -> Cluster:
        """A registered cluster; by default its agent has connected before."""
        cluster, _ = await self.clusters.create(self.admin, ClusterChange(name=name))
        if connected:
            about = ClusterFacts("v1.36.3", "GENERIC", 3)
            greeting = AgentHello("instance", "0.1.0", about, sealing_key=self.agent_key.public)
            return (await self.agents.record_connection(cluster.id, greeting)).cluster
        return cluster

    async def repository(self, url: str = "https://git.example.org/fleet.git") -> Repository:
        """A connected repository."""
        return await self.repositories.create(self.admin, RepositoryChange(url=url))

    async def service(
        self, cluster: Cluster, repository: Repository, name: str = "shop", **change: Any
    ) -> Service:
        """A service; by default its folder has its name."""
        given: dict[str, Any] = {"folder": name, "ref": "main", **change}
        service = await self.services.create(
            self.admin,
            cluster.id,
            None,
            ServiceChange(name=name, namespace="shop", repository_id=repository.id, **given),
        )
        await self.repositories.update_followed_refs(repository.id)
        return service

    async def get(self, service: Service) -> Service:
        """The service as it is now."""
        return await self.services.get(self.admin, service.id)

    async def report(
        self,
        service: Service,
        phase: Phase = Phase.HEALTHY,
        problems: tuple[Problem, ...] = (),
        sequence: int | None = None,
    ) -> None:
        """Let the agent report on the newest desired state of a service."""
        now = await self.get(service)
        async with self.deps.store.read() as tx:
            cluster = await tx[ClusterStore].get(service.cluster_id)
        assert cluster is not None
        body = SyncStatus(
            service.id,
            sequence or now.desired.generation,
            now.desired.digest or "",
            phase,
            problems,
        )
        report = Report(cluster.acknowledged + 1, self.clock.now(), body)
        await self.agents.record_reports(cluster.id, [report])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An empty control plane."""
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    yield world_of(store)
    await store.close()


@pytest.fixture
async def postgres_world(postgres: Postgres) -> AsyncIterator[World]:
    """An empty control plane on PostgreSQL, where several write at once."""
    url = migrated.new_postgres(postgres)
    store = SqlStore(make_engine(url), REPOSITORIES)
    yield world_of(store)
    await store.close()
    postgres.drop_database(url)


def world_of(store: SqlStore) -> World:
    """A control plane on a migrated store."""
    clock, manifests = FakeClock(), FakeManifests()
    sealer = EnvelopeSealer(b"k" * 32)
    return World(OperationContext(store, MemoryBus(), clock, manifests, sealer), manifests, clock)
