"""Manifests over the store in memory, with the operations of all kinds."""

from dataclasses import dataclass, replace
from typing import Any

from controlplane.access.operations.groups import Groups
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import Users
from controlplane.authorization import UNRESTRICTED, Actor
from controlplane.bridges import SERVICE_PARTS
from controlplane.cluster_sources.operations.sources import ClusterSources
from controlplane.clusters.operations.agent_settings import AgentSettingsOperations
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration_sources.operations.sources import ConfigurationSources
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import Source, write_documents
from controlplane.manifests.model.plan import ApplyOptions, ManifestPlan
from controlplane.manifests.operations.manifests import Manifests
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routers import Routers
from controlplane.notifications.operations.sinks import Sinks
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.context import OperationContext
from controlplane.platform.operations import Operations
from controlplane.repositories.operations import RepositoryOperations
from controlplane.secrets.operations.secrets import Secrets
from controlplane.services.operations.fences import ServiceFences
from controlplane.services.operations.services import Services
from tests.fakes.actors import ADMIN
from tests.fakes.operations import MemoryOperations, operations_over_memory


def kind_operations(context: OperationContext) -> Operations:
    """The operations of all kinds over any store."""
    reconciler = GeneratorReconciler(context, None)
    return Operations(
        Users(context),
        ServiceAccounts(context),
        Groups(context),
        TrustRules(context),
        Roles(context),
        RoleBindings(context),
        Permissions(context),
        Projects(context, ServiceFences(), UNRESTRICTED),
        Clusters(context),
        ClusterGroups(context),
        AgentSettingsOperations(context),
        RepositoryOperations(context),
        Secrets(context),
        ServiceContexts(context),
        Services(context, SERVICE_PARTS),
        ConfigurationFlow(context),
        GlobalServices(context, reconciler),
        ServiceSets(context, reconciler),
        ManagedNamespaces(context, reconciler),
        Pipelines(context),
        Sinks(context),
        Routers(context),
        Notifications(context),
        ConfigurationSources(context),
        ClusterSources(context),
    )


@dataclass(frozen=True)
class ManifestWorld:
    """An installation to which tests apply manifests."""

    memory: MemoryOperations
    manifests: Manifests
    operations: Operations

    async def apply(self, text: str, actor: Actor = ADMIN, **options: Any) -> ManifestPlan:
        """Applies one file."""
        given = replace(ApplyOptions(), **options)
        return await self.manifests.apply(actor, [self.source(text)], given)

    @staticmethod
    def source(text: str) -> Source:
        """A file of manifests."""
        return Source("fleet.yaml", text)

    async def export(self, *kinds: str) -> str:
        """Exports everything, or some kinds."""
        return await self.manifests.export(ADMIN, kinds)


def manifest_world() -> ManifestWorld:
    """Makes an empty installation."""
    memory = operations_over_memory()
    operations = kind_operations(memory.context)
    return ManifestWorld(memory, Manifests(memory.context, all_kinds(operations)), operations)


def document(kind: str, name: str, spec: Any = None, **metadata: Any) -> str:
    """One document as YAML."""
    found = {"apiVersion": "towline.io/v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return "---\n" + write_documents([found | ({"spec": spec} if spec else {})])
