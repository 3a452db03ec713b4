"""Generators over the store in memory: their operations, and the services that they create."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.access.model.bindings import Project
from controlplane.authorization import UNRESTRICTED, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.plan import TargetPlan
from controlplane.generators.operations.generation import AnyGenerator
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.reconciler import GeneratorReconciler, generator_table
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.generators.ports import GlobalServiceStore
from controlplane.services.model.service import Service, ServiceSpec
from controlplane.services.model.templates import ServiceTemplate
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ServiceStore
from core.identity import RepositoryId
from core.spec.edits import OpenMergeRequest
from tests.fakes.actors import person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

EU, US = make_cluster("eu", tags={"tier": "prod"}), make_cluster("us", tags={"tier": "dev"})
APPS = make_repository("apps")
SHOP = Project("shop", "shop", START, START, fence=UNRESTRICTED)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
TEMPLATE = ServiceTemplate("web", "shop", "apps", ServiceSpec("main", "web"))
WEB = ServiceChange("web", "shop", "apps", "main", "web")


@dataclass
class FakePullRequests:
    """Open pull requests, or the reason why they are unknown."""

    requests: Sequence[OpenMergeRequest] = ()
    error: Exception | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        self.asked.append((repository_id, provider))
        if self.error is not None:
            raise self.error
        return list(self.requests)


@dataclass(frozen=True)
class GeneratorWorld:
    """The operations of generators, their reconciler, and what they share."""

    memory: MemoryOperations
    hosting: FakePullRequests
    reconciler: GeneratorReconciler
    globals: GlobalServices
    sets: ServiceSets
    namespaces: ManagedNamespaces

    async def reconcile(self, definition: AnyGenerator) -> TargetPlan | None:
        """Reconciles a generator as it is stored."""
        return await self.reconciler.reconcile(f"{definition.kind.value}/{definition.id}")

    async def stored(self, definition: AnyGenerator) -> Any:
        """The generator as it is stored; None: it is gone."""
        async with self.memory.store.read() as tx:
            return await generator_table(tx, definition.kind).get(definition.id)

    async def owned(self, definition: AnyGenerator) -> dict[str, Service]:
        """The services of a generator with one service a cluster, by cluster id."""
        async with self.memory.store.read() as tx:
            services = await tx[ServiceStore].of_owner(definition.id)
        by_cluster = {service.cluster_id: service for service in services}
        assert len(by_cluster) == len(services)
        return dict(by_cluster)

    async def global_service(self, **columns: Any) -> GlobalService:
        """A stored global service `agents` with its services."""
        definition = GlobalService("g", "agents", START, START, template=TEMPLATE)
        definition = replace(definition, **columns)
        async with self.memory.store.write() as tx:
            await tx[GlobalServiceStore].add(definition)
        await self.reconcile(definition)
        return await self.stored(definition)

    async def change(self, definition: AnyGenerator, **columns: Any) -> Any:
        """Changes columns of a stored generator, without its operations."""
        async with self.memory.store.write() as tx:
            return await generator_table(tx, definition.kind).change(definition.id, **columns)

    async def last_audit(self) -> Mapping[str, Any]:
        """The details of the newest audit entry."""
        async with self.memory.store.read() as tx:
            return (await audit_rows(tx))[-1].detail


async def generator_world() -> GeneratorWorld:
    """Two clusters, a repository and a project."""
    memory, hosting = operations_over_memory(), FakePullRequests()
    await memory.given(EU, US, APPS, SHOP)
    reconciler = GeneratorReconciler(memory.context, hosting)
    return GeneratorWorld(
        memory,
        hosting,
        reconciler,
        GlobalServices(memory.context, reconciler),
        ServiceSets(memory.context, reconciler),
        ManagedNamespaces(memory.context, reconciler),
    )
