"""The registry of kinds of manifests, in the order in which they refer to each other."""

from collections.abc import Sequence

from controlplane.access.kinds import (
    GroupKind,
    ProjectKind,
    RoleBindingKind,
    RoleKind,
    ServiceAccountKind,
    TrustedIssuerKind,
    UserManifestKind,
)
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import Users
from controlplane.cluster_sources.kinds import ClusterSourceKind
from controlplane.cluster_sources.operations.sources import ClusterSources
from controlplane.clusters.kinds import AgentSettingsKind, ClusterGroupKind, ClusterKind
from controlplane.clusters.operations.agent_settings import AgentSettingsOperations
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.configuration.kinds import ConfiguredServiceKind, ContextKind
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration_sources.kinds import ConfigurationSourceKind
from controlplane.configuration_sources.operations.sources import ConfigurationSources
from controlplane.generators.kinds import GlobalServiceKind, ManagedNamespaceKind, ServiceSetKind
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.notifications.kinds import NotificationRuleKind, NotificationSinkKind
from controlplane.notifications.operations.routers import Routers
from controlplane.notifications.operations.sinks import Sinks
from controlplane.pipelines.kinds import PipelineKind
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.kinds import AnyKind
from controlplane.platform.operations import Operations
from controlplane.repositories.kinds import GitRepositoryKind, HelmRepositoryKind, OCIRepositoryKind
from controlplane.repositories.operations import RepositoryOperations
from controlplane.secrets.kinds import SecretKind
from controlplane.secrets.operations.secrets import Secrets
from controlplane.services.operations.services import Services


def all_kinds(operations: Operations) -> Sequence[AnyKind]:
    """Returns all kinds."""
    return (
        UserManifestKind(operations[Users]),
        ServiceAccountKind(operations[ServiceAccounts], operations[Users]),
        TrustedIssuerKind(operations[TrustRules]),
        GroupKind(operations[Groups]),
        RoleKind(operations[Roles]),
        ProjectKind(operations[Projects]),
        ClusterKind(operations[Clusters]),
        ClusterGroupKind(operations[ClusterGroups]),
        AgentSettingsKind(operations[AgentSettingsOperations]),
        GitRepositoryKind(operations[RepositoryOperations]),
        HelmRepositoryKind(operations[RepositoryOperations]),
        OCIRepositoryKind(operations[RepositoryOperations]),
        SecretKind(operations[Secrets]),
        ContextKind(operations[ServiceContexts]),
        ConfiguredServiceKind(
            operations[Services], operations[Secrets].use, operations[ConfigurationFlow]
        ),
        GlobalServiceKind(operations[GlobalServices]),
        ServiceSetKind(operations[ServiceSets]),
        ManagedNamespaceKind(operations[ManagedNamespaces]),
        PipelineKind(operations[Pipelines]),
        RoleBindingKind(operations[RoleBindings]),
        NotificationSinkKind(operations[Sinks]),
        NotificationRuleKind(operations[Routers]),
        ConfigurationSourceKind(operations[ConfigurationSources]),
        ClusterSourceKind(operations[ClusterSources]),
    )
