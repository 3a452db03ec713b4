"""All operations of the control plane, which the API, agents and tests call."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.roles import AccessControl
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import UserOperations
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.operations.streams import OpenRequestOperations
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.audit.operations.blame import Blame
from controlplane.cluster_sources.operations.sources import ClusterSources
from controlplane.clusters.operations.agent_settings import AgentSettingsOperations
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.configuration.api.contexts import BoundContexts
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration_sources.operations.sources import ConfigurationSources
from controlplane.delivery.operations.diffs import Diffs
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.inbox.operations import Inbox
from controlplane.manifests.operations.manifests import Manifests
from controlplane.manifests.operations.what_if import ManifestReplays
from controlplane.notifications.operations.sinks import NotificationOperations
from controlplane.pipelines.operations.overrides import ReleaseDecisions
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.provenance import ProvenanceReports
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.operations.what_if import PipelineReplays
from controlplane.platform.graphql.context import ChangeFeed
from controlplane.platform.ports import Bus
from controlplane.reports.operations import LedgerReports
from controlplane.repositories.operations import RepositoryOperations
from controlplane.search.operations import SearchOperations
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.secrets import Secrets
from controlplane.services.api.loading import ContextLoader
from controlplane.services.operations.components import ComponentOperations
from controlplane.services.operations.fence_reports import FenceReports
from controlplane.services.operations.fence_use import FenceUses
from controlplane.services.operations.services import Services
from controlplane.views.operations import SavedViews
from core.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations that the API offers."""

    identity: CredentialAuthenticator
    people: UserOperations
    trust_rules: TrustRules
    projects: Projects
    rights: AccessControl
    requests: AccessRequests
    clusters: Clusters
    bootstrap: BootstrapTokens
    repositories: RepositoryOperations
    services: Services
    fences: FenceReports
    fence_uses: FenceUses
    provenance: ProvenanceReports
    contexts: ServiceContexts
    flows: ConfigurationFlow
    secrets: Secrets
    refreshing: SecretRefresher
    keys: DataKeyOperations
    agent_settings: AgentSettingsOperations
    globals: GlobalServices
    sets: ServiceSets
    namespaces: ManagedNamespaces
    cluster_groups: ClusterGroups
    components: ComponentOperations
    blame: Blame
    diffs: Diffs
    pipelines: Pipelines
    pipeline_overrides: ReleaseDecisions
    whatifs: PipelineReplays
    triggers: Triggers
    records: AuditLogOperations
    reports: LedgerReports
    search: SearchOperations
    inbox: Inbox
    clock: Clock
    notifying: NotificationOperations
    interventions: AgentCommands
    cluster_jobs: ClusterJobs
    streams: OpenRequestOperations
    bus: Bus
    manifests: Manifests
    manifest_replays: ManifestReplays
    configuration_sources: ConfigurationSources
    cluster_sources: ClusterSources
    views: SavedViews

    def by_type(self) -> Mapping[type[object], object]:
        """The operations by their classes, and the ports that resolvers call."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        ports: dict[type[object], object] = {
            Bus: parts.pop("bus"),
            Clock: parts.pop("clock"),
            ChangeFeed: self.search,
            ContextLoader: BoundContexts(),
        }
        return ports | {type(part): part for part in parts.values()}
