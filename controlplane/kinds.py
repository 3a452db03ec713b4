"""The registry of kinds of manifests, in the order in which they refer to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.access.kinds import (
    GroupKind,
    ProjectKind,
    RoleBindingKind,
    RoleKind,
    ServiceAccountKind,
    TrustedIssuerKind,
    UserManifestKind,
)
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.roles import AccessControl
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import UserOperations
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
from controlplane.notifications.operations.sinks import NotificationOperations
from controlplane.pipelines.kinds import PipelineKind
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.kinds import AnyKind
from controlplane.repositories.kinds import GitRepositoryKind, HelmRepositoryKind, OCIRepositoryKind
from controlplane.repositories.operations import RepositoryOperations
from controlplane.secrets.kinds import SecretKind
from controlplane.secrets.operations.secrets import Secrets
from controlplane.services.operations.services import Services


@dataclass(frozen=True, slots=True)
class KindOperations:
    """The operations through which manifests change resources."""

    people: UserOperations
    trust_rules: TrustRules
    rights: AccessControl
    projects: Projects
    clusters: Clusters
    cluster_groups: ClusterGroups
    agent_settings: AgentSettingsOperations
    repositories: RepositoryOperations
    secrets: Secrets
    contexts: ServiceContexts
    services: Services
    flow: ConfigurationFlow
    globals: GlobalServices
    sets: ServiceSets
    namespaces: ManagedNamespaces
    pipelines: Pipelines
    notifying: NotificationOperations
    sources: ConfigurationSources
    cluster_sources: ClusterSources


def all_kinds(operations: KindOperations) -> Sequence[AnyKind]:
    """Returns all kinds."""
    return (
        UserManifestKind(operations.people),
        ServiceAccountKind(operations.people),
        TrustedIssuerKind(operations.trust_rules),
        GroupKind(operations.people),
        RoleKind(operations.rights),
        ProjectKind(operations.projects),
        ClusterKind(operations.clusters),
        ClusterGroupKind(operations.cluster_groups),
        AgentSettingsKind(operations.agent_settings),
        GitRepositoryKind(operations.repositories),
        HelmRepositoryKind(operations.repositories),
        OCIRepositoryKind(operations.repositories),
        SecretKind(operations.secrets),
        ContextKind(operations.contexts),
        ConfiguredServiceKind(operations.services, operations.secrets.use, operations.flow),
        GlobalServiceKind(operations.globals),
        ServiceSetKind(operations.sets),
        ManagedNamespaceKind(operations.namespaces),
        PipelineKind(operations.pipelines),
        RoleBindingKind(operations.rights),
        NotificationSinkKind(operations.notifying),
        NotificationRuleKind(operations.notifying),
        ConfigurationSourceKind(operations.sources),
        ClusterSourceKind(operations.cluster_sources),
    )
