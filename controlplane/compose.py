"""Assembles the control plane on its foundation."""

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from controlplane.access.http.browser import Cookies
from controlplane.access.http.scim import ScimRoutes
from controlplane.access.http.sign_in import SignInRoutes
from controlplane.access.loop import AccessExpiryLoop
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.groups import Groups
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.permissions import Permissions
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.scim import ScimDirectory
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.access.operations.users import Users
from controlplane.agents.link.server import AgentLink
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agent_renders import AgentRenders
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.operations.streams import OpenRequestOperations
from controlplane.agents.ports import ProxySessions
from controlplane.api.schema import schema
from controlplane.audit.http import AuditExport
from controlplane.audit.loop import RetentionLoop
from controlplane.audit.model.chains import AuditKind
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.audit.operations.blame import Blame
from controlplane.authorization import UNRESTRICTED, Fence
from controlplane.bridges import SERVICE_PARTS
from controlplane.cluster_sources.loop import ClusterSourceLoop
from controlplane.cluster_sources.operations.clean_up import DeliveryCleanUp
from controlplane.cluster_sources.operations.deliveries import AgentDeliveries
from controlplane.cluster_sources.operations.reconciler import ClusterSourceReconciler
from controlplane.cluster_sources.operations.sources import ClusterSources
from controlplane.cluster_sources.ports import AgentManifests, ManagementCluster
from controlplane.clusters.operations.agent_settings import AgentSettingsOperations
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.configuration.api.contexts import BoundContexts
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration_sources.loop import ConfigurationSourceLoop
from controlplane.configuration_sources.operations.field_managers import FieldManagers
from controlplane.configuration_sources.operations.reconciler import SourceReconciler
from controlplane.configuration_sources.operations.sources import ConfigurationSources
from controlplane.delivery.loop import RenderLoop
from controlplane.delivery.operations.diffs import Diffs
from controlplane.delivery.operations.pinned_services import PinnedServices
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.foundation import Foundation
from controlplane.generators.loop import GeneratorLoop
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.generators.ports import PullRequests
from controlplane.http.graphql import GraphQLEndpoint
from controlplane.inbox.operations import Inbox
from controlplane.kinds import all_kinds
from controlplane.manifests.operations.manifests import Manifests
from controlplane.manifests.operations.what_if import ManifestReplays
from controlplane.notifications.loop import NotificationLoop
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routers import Routers
from controlplane.notifications.operations.routing import NotificationRouting, StateWatcher
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.notifications.operations.sinks import Sinks
from controlplane.pipelines.loop import PipelineLoop
from controlplane.pipelines.operations.denied_revisions import RevisionDenials
from controlplane.pipelines.operations.gate_checks import CheckRunner
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.provenance import ProvenanceReports
from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.operations.what_if import PipelineReplays
from controlplane.platform.batch import BatchedBus, BatchedStore
from controlplane.platform.context import OperationContext
from controlplane.platform.git_ports import GitHistory, GitTags, GitWriter, ManifestSource
from controlplane.platform.graphql.context import ApiBackend, ChangeFeed
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.operations import Operations
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.ports import Bus
from controlplane.reports.loop import TraceExportLoop
from controlplane.reports.operations import LedgerReports
from controlplane.reports.telemetry import OtlpSpans
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import CredentialIssuer
from controlplane.repositories.registry import ImageRegistries
from controlplane.search.operations import SearchOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer, load_or_make_key
from controlplane.secrets.backends.hooks import CommandKek, HttpKek
from controlplane.secrets.backends.keks import AgeKek, LocalKek, age_identity, key_of
from controlplane.secrets.backends.vault import KvStore, TransitKek, Vault
from controlplane.secrets.loop import SecretLoop
from controlplane.secrets.model.secret_source import ExternalSecretStores
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import Secrets
from controlplane.secrets.ports import KeyEncryption
from controlplane.services.api.loading import ContextLoader
from controlplane.services.operations.components import ComponentOperations
from controlplane.services.operations.fence_reports import FenceReports
from controlplane.services.operations.fence_use import FenceUses
from controlplane.services.operations.fences import ServiceFences
from controlplane.services.operations.services import Services
from controlplane.services.ports import LiveObjects
from controlplane.settings import (
    AuditSettings,
    AuthSettings,
    ControlPlaneSettings,
    KekKind,
    KekSettings,
    SecretSettings,
    TraceSettings,
)
from controlplane.views.operations import SavedViews
from core.outbound.oci import OciRegistryClient
from core.runtime.clock import Clock


class Connection(Protocol):
    """Something that holds connections to other systems."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """All parts that the program serves and stops; the caller closes the foundation."""

    foundation: Foundation
    context: OperationContext
    operations: Operations
    api: ApiBackend
    graphql: GraphQLEndpoint
    agentlink: AgentLink
    signin_routes: SignInRoutes
    scim: ScimRoutes
    audit_export: AuditExport
    background: Sequence[AgentLink | BackgroundLoop]
    """Background work, in the order in which it starts; it stops in the reverse order."""
    connections: Sequence[Connection]
    """Connections to other systems, which close last."""

    async def start(self) -> None:
        """Starts background work."""
        for part in self.background:
            await part.start()

    async def stop(self) -> None:
        """Stops background work, then closes connections."""
        for part in reversed(self.background):
            await part.stop()
        await self.close()

    async def close(self) -> None:
        """Closes the connections of a control plane that was not started."""
        for connection in self.connections:
            await connection.close()


def _always(repository_id: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OutsidePorts:
    """The ports that the git cache and the Kubernetes proxy implement.

    `delivers`: whether this process delivers a repository, if several processes are notified of it.
    `writer` writes commits and pull requests. `lender` provides agents with credentials for
    renders; without it the control plane renders everything. Without `live`, `sessions` and
    `management`, no cluster is reachable. `agents` renders the agent's chart for cluster sources.
    """

    manifests: ManifestSource
    delivers: Callable[[str], bool] = _always
    writer: GitWriter | None = None
    lender: CredentialIssuer | None = None
    pull_requests: PullRequests | None = None
    git_tags: GitTags | None = None
    git_history: GitHistory | None = None
    live: LiveObjects | None = None
    sessions: ProxySessions | None = None
    management: ManagementCluster | None = None
    agents: AgentManifests | None = None


async def build(foundation: Foundation, ports: OutsidePorts) -> ControlPlane:
    """Builds the control plane, not yet started."""
    settings, store = foundation.settings, BatchedStore(foundation.store)
    bus, clock = BatchedBus(foundation.context.bus), foundation.context.clock
    sign_in, records = foundation.sign_in, foundation.records
    identity, logs = sign_in.identity, LiveLogs()
    own_key = load_or_make_key(settings.data_dir / "encryption.key")
    sealer = EnvelopeSealer(own_key)
    context = _with_agent_renders(
        OperationContext(store, bus, clock, ports.manifests, sealer, ports.writer), ports.lender
    )
    cookies = Cookies(settings.auth.public_url)
    outward = GuardedSender(settings.notify.private_networks, settings.notify.ca_file)
    keys = await _keys(context, sealer, own_key, settings.secrets)
    secret_sources = _sources(settings.secrets, identity, ports.live)
    repositories, pipelines = RepositoryOperations(context), Pipelines(context)
    await repositories.check_key()
    images = ImageRegistries(OciRegistryClient(outward, clock))
    operations = _operations(
        context,
        ports,
        settings.auth,
        Operations(
            identity,
            records,
            AccessRequests(context),
            repositories,
            GeneratorReconciler(context, ports.pull_requests),
            pipelines,
            Triggers(context, pipelines, repositories, images, ports.git_tags),
            ClusterJobs(context, logs),
            SecretRefresher(context, secret_sources),
            keys,
        ),
    )
    api = _api(context, operations, settings, sealer.manifest_key.public)
    agentlink = AgentLink(
        AgentOperations(context), identity, operations[BootstrapTokens], bus, logs, clock
    )
    return ControlPlane(
        foundation=foundation,
        context=context,
        operations=operations,
        api=api,
        graphql=GraphQLEndpoint(schema, api, clock, foundation.shared.limiter, cookies),
        agentlink=agentlink,
        signin_routes=SignInRoutes(sign_in.signin, identity, sign_in.accounts, cookies, clock),
        scim=ScimRoutes(ScimDirectory(context, _scim_issuers(settings.auth)), identity, cookies),
        audit_export=AuditExport(records, identity, cookies),
        background=(agentlink, *_loops(context, operations, settings, ports, outward)),
        connections=(outward, secret_sources, keys),
    )


def _loops(
    context: OperationContext,
    operations: Operations,
    settings: ControlPlaneSettings,
    ports: OutsidePorts,
    outward: GuardedSender,
) -> Iterator[BackgroundLoop]:
    """Yields the background work of all nouns, in the order in which it starts."""
    store, bus, clock = context.store, context.bus, context.clock
    repositories, engine = operations[RepositoryOperations], operations[Pipelines].engine
    yield RenderLoop(
        RenderReconciler(context),
        PinnedServices(context, ports.git_history),
        repositories,
        context,
        ports.delivers,
    )
    yield PipelineLoop(
        engine,
        Promotions(context, engine),
        CheckRunner(context, engine, operations[ClusterJobs], outward, ports.live),
        operations[Triggers],
        context,
        holder=context.new_id(),
    )
    yield GeneratorLoop(operations[GeneratorReconciler], ports.manifests, store, bus, clock)
    yield AccessExpiryLoop(operations[AccessRequests], clock)
    routing = NotificationRouting(context)
    yield RetentionLoop(
        operations[AuditLogOperations], routing.forget, _retention(settings.audit), clock
    )
    yield NotificationLoop(
        routing, NotificationSender(context, outward), StateWatcher(context), bus, clock
    )
    yield SecretLoop(
        Rotations(context), operations[SecretRefresher], operations[DataKeyOperations], bus, clock
    )
    yield ConfigurationSourceLoop(
        SourceReconciler(context, operations[Manifests]),
        context,
        ports.delivers,
        holder=context.new_id(),
    )
    if ports.management is not None and ports.agents is not None:
        yield _cluster_sources(context, operations[Clusters], ports.management, ports.agents)
    if settings.traces.url:
        yield TraceExportLoop(store, _span_exporter(settings.traces), ports.delivers, clock)


def _api(
    context: OperationContext,
    operations: Operations,
    settings: ControlPlaneSettings,
    sealing_key: bytes,
) -> ApiBackend:
    ports: dict[type[object], object] = {
        Bus: context.bus,
        Clock: context.clock,
        ChangeFeed: operations[SearchOperations],
        ContextLoader: BoundContexts(),
        ManifestSource: context.manifests,
    }
    return ApiBackend(
        {**operations.by_class, **ports},
        operations[CredentialAuthenticator],
        agents_port=settings.agents_port,
        cluster_domain=settings.cluster_domain,
        sealing_key=base64.b64encode(sealing_key).decode(),
        introspection=settings.introspection,
    )


def _operations(
    context: OperationContext, ports: OutsidePorts, auth: AuthSettings, shared: Operations
) -> Operations:
    """Builds all operations beside those that loops and routes share with the API."""
    components = ComponentOperations(context, ports.live)
    pipelines, generators = shared[Pipelines], shared[GeneratorReconciler]
    replays = PipelineReplays(context, pipelines)
    operations = shared.extended(
        Users(context),
        ServiceAccounts(context),
        Groups(context),
        TrustRules(context),
        Projects(context, ServiceFences(), _first_fence(auth)),
        Roles(context),
        RoleBindings(context),
        Permissions(context),
        Clusters(context),
        BootstrapTokens(context),
        Services(context, SERVICE_PARTS),
        FenceReports(context),
        FenceUses(context),
        ProvenanceReports(context),
        ServiceContexts(context),
        ConfigurationFlow(context),
        Secrets(context),
        AgentSettingsOperations(context),
        GlobalServices(context, generators),
        ServiceSets(context, generators),
        ManagedNamespaces(context, generators),
        ClusterGroups(context),
        components,
        Blame(context, components),
        Diffs(context),
        ReleaseDecisions(context, pipelines),
        RevisionDenials(context, pipelines.engine),
        replays,
        LedgerReports(context),
        SearchOperations(context),
        Inbox(context, shared[AccessRequests]),
        Sinks(context),
        Routers(context),
        Notifications(context),
        AgentCommands(context),
        OpenRequestOperations(context, ports.sessions),
        ConfigurationSources(context),
        ClusterSources(context),
        SavedViews(context),
    )
    kinds = all_kinds(operations)
    manifests = Manifests(context, kinds)
    return operations.extended(
        manifests, FieldManagers(context, manifests), ManifestReplays(context, kinds, replays)
    )


def _cluster_sources(
    context: OperationContext,
    clusters: Clusters,
    management: ManagementCluster,
    agents: AgentManifests,
) -> ClusterSourceLoop:
    deliveries = AgentDeliveries(context, management, agents)
    reconciler = ClusterSourceReconciler(context, clusters, management, deliveries)
    clean_up = DeliveryCleanUp(context, management)
    return ClusterSourceLoop(reconciler, clean_up, context, holder=context.new_id())


def _with_agent_renders(
    context: OperationContext, lender: CredentialIssuer | None
) -> OperationContext:
    """Adds renders by agents, if there are credentials for them."""
    if lender is None:
        return context
    return replace(context, agent_renders=AgentRenders(context, lender))


def _span_exporter(settings: TraceSettings) -> OtlpSpans:
    value = settings.authorization.get_secret_value()
    return OtlpSpans(settings.url, {"Authorization": value} if value else {}, settings.ca_file)


async def _keys(
    context: OperationContext, ring: EnvelopeSealer, own_key: bytes, settings: SecretSettings
) -> DataKeyOperations:
    """Puts all data keys into the ring, wrapped by the key of the settings."""
    before = [LocalKek(own_key), *(_kek(kek, own_key) for kek in settings.previous)]
    keys = DataKeyOperations(
        context, ring, _kek(settings.kek, own_key), {kek.name: kek for kek in before}
    )
    await keys.rewrap()
    if settings.kek.kind is not KekKind.FILE:
        await keys.begin()
    await keys.load()
    return keys


def _kek(settings: KekSettings, own_key: bytes) -> KeyEncryption:
    token = settings.token.get_secret_value()
    if settings.kind is KekKind.FILE:
        return LocalKek(settings.path.read_bytes() if settings.path else own_key)
    if settings.kind is KekKind.ENVIRONMENT:
        return LocalKek(key_of(settings.value.get_secret_value()))
    if settings.kind is KekKind.AGE:
        return AgeKek(age_identity(settings.path or Path()))
    if settings.kind is KekKind.COMMAND:
        return CommandKek(settings.command)
    if settings.kind is KekKind.HTTP:
        return HttpKek(settings.url, token, settings.ca_file)
    vault = Vault(settings.url, token, namespace=settings.namespace, ca_file=settings.ca_file)
    return TransitKek(vault, settings.key, settings.mount)


def _sources(
    settings: SecretSettings, identity: CredentialAuthenticator, live: LiveObjects | None
) -> ExternalSecretStores:
    vaults = {
        vault.name: KvStore(
            Vault(
                vault.url,
                vault.token.get_secret_value(),
                title=f"vault {vault.name}",
                namespace=vault.namespace,
                ca_file=vault.ca_file,
            ),
            vault.mount,
            vault.prefix,
        )
        for vault in settings.vaults
    }
    return ExternalSecretStores(vaults, os.environ, settings.environment, identity.actor_of, live)


def _retention(settings: AuditSettings) -> dict[AuditKind, timedelta]:
    """Returns the retention of each kind of rows; without an entry, forever."""
    days = {
        AuditKind.CHANGE: settings.change_days,
        AuditKind.SIGN_IN: settings.sign_in_days,
        AuditKind.REQUEST: settings.request_days,
        AuditKind.AGENT: settings.agent_days,
    }
    return {kind: timedelta(days=count) for kind, count in days.items() if count}


def _first_fence(settings: AuthSettings) -> Fence:
    """Returns the fence of new projects without one."""
    return UNRESTRICTED if settings.open_projects else Fence()


def _scim_issuers(settings: AuthSettings) -> dict[str, str]:
    """Returns the issuer for which each service account pushes users and groups."""
    return {issuer.scim_account: issuer.issuer for issuer in settings.oidc if issuer.scim_account}
