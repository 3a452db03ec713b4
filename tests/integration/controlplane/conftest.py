"""A control plane without edges: real store, fake git cache, a clock that tests move."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.access import (
    BUILT_IN,
    INSTALLATION,
    NO_PERMISSIONS,
    Actor,
    ActorKind,
    Grant,
    Policy,
    Scope,
)
from controlplane.domain.access.roles import BuiltInRole as Role
from controlplane.domain.clusters import Cluster
from controlplane.domain.reports import AgentHello, FactsReport, Report, StatusReport
from controlplane.domain.repositories import Repository
from controlplane.domain.services import Phase, Problem, Service
from controlplane.events.livelogs import MemoryLiveLogs
from controlplane.events.memory import MemoryBus
from controlplane.secrets.envelope import EnvelopeSealer
from controlplane.storage.engine import make_engine
from controlplane.storage.store import SqlStore
from controlplane.usecases.agents import AgentOperations
from controlplane.usecases.clusterjobs import ClusterJobs
from controlplane.usecases.clusters import ClusterChange, Clusters
from controlplane.usecases.delivery import RenderReconciler
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.identity import CredentialAuthenticator
from controlplane.usecases.interventions import AgentCommands
from controlplane.usecases.people import UserOperations
from controlplane.usecases.pipelines import Pipelines
from controlplane.usecases.projects import Projects
from controlplane.usecases.promotions import Promotions
from controlplane.usecases.records import AuditLogOperations
from controlplane.usecases.repositories import RepositoryChange, RepositoryOperations
from controlplane.usecases.requests import AccessRequests
from controlplane.usecases.rights import AccessControl
from controlplane.usecases.services import ServiceChange, Services
from core.sealing import SealingKey
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests
from tests.servers.postgres import Postgres


def person(role: Role | None, name: str = "ada", scope: Scope = INSTALLATION) -> Actor:
    """A user with this role, everywhere if not told where."""
    policy = Policy((Grant(BUILT_IN[role], scope),)) if role else NO_PERMISSIONS
    return Actor(ActorKind.USER, id=name, name=name, email=f"{name}@example.org", policy=policy)


@dataclass
class World:
    """All verbs over one store."""

    deps: OperationContext
    manifests: FakeManifests
    clock: FakeClock

    def __post_init__(self) -> None:
        self.admin = person(Role.ADMIN, "root")
        self.identity = CredentialAuthenticator(self.deps)
        self.people = UserOperations(self.deps)
        self.projects = Projects(self.deps)
        self.rights = AccessControl(self.deps)
        self.requests = AccessRequests(self.deps)
        self.clusters = Clusters(self.deps)
        self.repositories = RepositoryOperations(self.deps)
        self.services = Services(self.deps)
        self.delivery = RenderReconciler(self.deps)
        self.agents = AgentOperations(self.deps)
        self.agent_key = SealingKey.from_bytes(b"a" * 32)
        self.logs = MemoryLiveLogs()
        self.jobs = ClusterJobs(self.deps, self.logs)
        self.interventions = AgentCommands(self.deps)
        self.records = AuditLogOperations(self.deps)
        self.pipelines = Pipelines(self.deps)
        self.promotions = Promotions(self.deps, self.pipelines, self.repositories)

    async def cluster(self, name: str = "dev", *, connected: bool = True) -> Cluster:
        """A registered cluster, whose agent has been there unless told otherwise."""
        cluster, _ = await self.clusters.create(self.admin, ClusterChange(name=name))
        if connected:
            about = FactsReport("v1.36.3", "GENERIC", 3)
            greeting = AgentHello("instance", "0.1.0", about, sealing_key=self.agent_key.public)
            return (await self.agents.connected(cluster.id, greeting)).cluster
        return cluster

    async def repository(self, url: str = "https://git.example.org/fleet.git") -> Repository:
        """A connected repository."""
        return await self.repositories.create(self.admin, RepositoryChange(url=url))

    async def service(
        self, cluster: Cluster, repository: Repository, name: str = "shop", **change: Any
    ) -> Service:
        """A service of the folder that bears its name, unless told otherwise."""
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
            cluster = await tx.clusters.get(service.cluster_id)
        assert cluster is not None
        body = StatusReport(service.id, sequence or now.sequence, now.digest or "", phase, problems)
        report = Report(cluster.acknowledged + 1, self.clock.now(), body)
        await self.agents.record(cluster.id, [report])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An empty control plane."""
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)))
    yield world_of(store)
    await store.close()


@pytest.fixture
async def postgres_world(postgres: Postgres) -> AsyncIterator[World]:
    """An empty control plane on PostgreSQL, where several write at once."""
    url = migrated.new_postgres(postgres)
    store = SqlStore(make_engine(url))
    yield world_of(store)
    await store.close()
    postgres.drop_database(url)


def world_of(store: SqlStore) -> World:
    """A control plane on a migrated store."""
    clock, manifests = FakeClock(), FakeManifests()
    sealer = EnvelopeSealer(b"k" * 32)
    return World(OperationContext(store, MemoryBus(), manifests, sealer, clock), manifests, clock)
