"""Assembles the control plane; the only module that knows settings and concrete classes."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.access.http.browser import Cookies
from controlplane.access.http.scim import ScimRoutes
from controlplane.access.http.sign_in import SignInRoutes
from controlplane.access.loop import AccessExpiryLoop
from controlplane.access.model.sign_in import Issuer
from controlplane.access.oidc.issuers import OidcClient, OidcIssuers
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.roles import AccessControl
from controlplane.access.operations.scim import ScimDirectory
from controlplane.access.operations.sign_in import SignIn
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.access.operations.users import UserOperations
from controlplane.agents.link.server import AgentLink
from controlplane.agents.live_logs import MemoryLiveLogs
from controlplane.agents.operations.agent_renders import AgentRenderedManifests
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.operations.streams import OpenRequestOperations
from controlplane.agents.operations.tunnels import TunnelClaims
from controlplane.api.schema import schema
from controlplane.audit.http import AuditExport
from controlplane.audit.loop import RetentionLoop
from controlplane.audit.model.chains import AuditKind
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.audit.operations.blame import Blame
from controlplane.clusters.operations.agent_settings import DeploymentSettingsOperations
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.delivery.loop import RenderLoop
from controlplane.delivery.operations.diffs import Diffs
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.generators.loop import GeneratorLoop
from controlplane.generators.operations.global_services import GlobalServices
from controlplane.generators.operations.namespaces import ManagedNamespaces
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.generators.operations.service_sets import ServiceSets
from controlplane.http.graphql import GraphQLEndpoint
from controlplane.notifications.loop import NotificationLoop
from controlplane.notifications.operations.routing import NotificationRouting, StateWatcher
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.notifications.operations.sinks import NotificationOperations
from controlplane.operations import Operations
from controlplane.pipelines.loop import PipelineLoop
from controlplane.pipelines.operations.gate_checks import CheckRunner
from controlplane.pipelines.operations.overrides import ReleaseDecisions
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.operations.what_if import PipelineReplays
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.bus.rate_limits import RateExchange
from controlplane.platform.bus.redis import RedisBus
from controlplane.platform.context import OperationContext
from controlplane.platform.git_ports import GitWriter, ManifestSource
from controlplane.platform.graphql.context import ApiBackend
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.rate_limits import WINDOW_S, RequestLimiter
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.reports.loop.traces import TraceExportLoop
from controlplane.reports.operations import LedgerReports
from controlplane.reports.telemetry.otlp import OtlpSpans
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import CredentialIssuer
from controlplane.repositories.registry import ImageRegistries
from controlplane.search.operations import SearchOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer, load_or_make_key
from controlplane.secrets.backends.external import ExternalSecretSources
from controlplane.secrets.backends.hooks import CommandKek, HttpKek
from controlplane.secrets.backends.keks import AgeKek, LocalKek, age_identity, key_of
from controlplane.secrets.backends.passwords import ArgonPasswords
from controlplane.secrets.backends.vault import KvStore, TransitKek, Vault
from controlplane.secrets.loop import SecretLoop
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import Secrets
from controlplane.secrets.ports import KeyEncryption
from controlplane.services.operations.components import ComponentOperations
from controlplane.services.operations.services import Services
from controlplane.settings import (
    AuditSettings,
    AuthSettings,
    ControlPlaneSettings,
    KekKind,
    KekSettings,
    SecretSettings,
    TraceSettings,
)
from controlplane.store.migrate import migrate
from controlplane.store.repositories import REPOSITORIES
from core.outbound.oci import OciRegistryClient
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy


@dataclass(frozen=True, slots=True)
class SecretParts:
    """The parts for secrets."""

    sources: ExternalSecretSources
    loop: SecretLoop
    refreshing: SecretRefresher
    keys: DataKeyOperations


@dataclass(frozen=True, slots=True)
class Traces:
    """The loop that exports traces, and the exporter."""

    loop: TraceExportLoop
    spans: OtlpSpans

    async def stop(self) -> None:
        """Stops both."""
        await self.loop.tasks.stop()
        self.spans.close()


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """All parts that the program serves and stops."""

    deps: OperationContext
    operations: Operations
    api: ApiBackend
    graphql: GraphQLEndpoint
    agentlink: AgentLink
    delivery: RenderLoop
    pipelines: PipelineLoop
    checks: CheckRunner
    targets: GeneratorReconciler
    target_loop: GeneratorLoop
    store: SqlStore
    issuers: OidcIssuers
    passwords: ArgonPasswords
    signin: SignIn
    signin_routes: SignInRoutes
    scim: ScimRoutes
    access: AccessExpiryLoop
    retention: RetentionLoop
    news: NotificationLoop
    outward: GuardedSender
    audit_export: AuditExport
    tunnels: TunnelClaims
    secrets: SecretParts
    shared_bus: RedisBus | None = None
    shared_rates: RateExchange | None = None
    traces: Traces | None = None

    async def start(self) -> None:
        """Starts background work."""
        if self.shared_bus is not None:
            self.shared_bus.start()
        if self.shared_rates is not None:
            self.shared_rates.start()
        self.agentlink.start()
        await self.delivery.start()
        await self.pipelines.start()
        await self.target_loop.start()
        self.access.start()
        self.retention.start()
        self.news.start()
        self.secrets.loop.start()
        if self.traces is not None:
            self.traces.loop.start()

    async def stop(self) -> None:
        """Stops background work, then closes the store."""
        if self.traces is not None:
            await self.traces.stop()
        await self.secrets.loop.tasks.stop()
        await self.news.tasks.stop()
        await self.retention.stop()
        await self.access.tasks.stop()
        await self.target_loop.tasks.stop()
        await self.pipelines.tasks.stop()
        await self.delivery.tasks.stop()
        await self.agentlink.stop()
        if self.shared_rates is not None:
            await self.shared_rates.stop()
        if self.shared_bus is not None:
            await self.shared_bus.stop()
        self.passwords.close()
        await self.issuers.close()
        await self.outward.close()
        await self.secrets.sources.close()
        await self.secrets.keys.close()
        await self.store.close()


def open_engine(settings: ControlPlaneSettings) -> AsyncEngine:
    """Opens the engine of the store from the settings."""
    if settings.database is not None:
        return make_engine(settings.database.get_secret_value())
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return make_engine(sqlite_url(settings.data_dir))


def _always(repository_id: str) -> bool:
    return True


async def build(
    settings: ControlPlaneSettings,
    manifests: ManifestSource,
    clock: Clock,
    delivers: Callable[[str], bool] = _always,
    writer: GitWriter | None = None,
    lender: CredentialIssuer | None = None,
) -> ControlPlane:
    """Builds the control plane on a migrated store, not yet started.

    `delivers`: whether this process delivers a repository, if several processes are notified of it.
    `writer` writes commits and pull requests. `lender` provides agents with credentials for
    renders; without it the control plane renders everything.
    """
    engine = open_engine(settings)
    try:
        await migrate(engine)
        return await _assemble(
            SqlStore(engine, REPOSITORIES), settings, manifests, clock, delivers, writer, lender
        )
    except BaseException:
        await engine.dispose()
        raise


async def _assemble(
    store: SqlStore,
    settings: ControlPlaneSettings,
    manifests: ManifestSource,
    clock: Clock,
    delivers: Callable[[str], bool],
    writer: GitWriter | None,
    lender: CredentialIssuer | None,
) -> ControlPlane:
    rates, shared_rates, shared_bus = _shared_parts(settings, clock)
    bus, logs = shared_bus or MemoryBus(), MemoryLiveLogs()
    own_key = load_or_make_key(settings.data_dir / "encryption.key")
    sealer = EnvelopeSealer(own_key)
    deps = _with_agent_renders(
        OperationContext(store, bus, manifests, sealer, clock, writer), lender
    )
    entry = _sign_in_parts(deps, settings.auth)
    identity = entry.identity
    cookies = Cookies(settings.auth.public_url)
    requests, records = AccessRequests(deps), AuditLogOperations(deps)
    routing = NotificationRouting(deps)
    outward = GuardedSender(settings.notify.private_networks, settings.notify.ca_file)
    repositories, pipelines = RepositoryOperations(deps), Pipelines(deps)
    targets, jobs = GeneratorReconciler(deps), ClusterJobs(deps, logs)
    checks = CheckRunner(deps, pipelines, jobs, outward)
    kept = await _secret_parts(deps, sealer, own_key, settings.secrets, identity)
    await repositories.check_key()
    images = ImageRegistries(OciRegistryClient(outward, clock))
    triggers = Triggers(deps, pipelines, repositories, images)
    shared = _Shared(
        entry, requests, repositories, targets, pipelines, triggers, records, jobs, kept
    )
    operations = _operations(deps, shared)
    api = _api(operations, settings)
    return ControlPlane(
        deps=deps,
        operations=operations,
        api=api,
        graphql=GraphQLEndpoint(schema, api, clock, rates, cookies),
        agentlink=AgentLink(AgentOperations(deps), identity, bus, logs, clock),
        delivery=RenderLoop(
            RenderReconciler(deps), repositories, manifests, store, bus, clock, delivers
        ),
        targets=targets,
        target_loop=GeneratorLoop(targets, manifests, store, bus, clock),
        pipelines=_pipeline_loop(deps, pipelines, repositories, checks, triggers),
        checks=checks,
        store=store,
        issuers=entry.issuers,
        passwords=entry.passwords,
        signin=entry.signin,
        signin_routes=SignInRoutes(entry.signin, identity, entry.accounts, cookies, clock),
        scim=ScimRoutes(ScimDirectory(deps, _scim_issuers(settings.auth)), identity, cookies),
        access=AccessExpiryLoop(requests, clock),
        retention=RetentionLoop(records, routing.forget, _retention(settings.audit), clock),
        news=NotificationLoop(
            routing, NotificationSender(deps, outward), StateWatcher(deps), bus, clock
        ),
        outward=outward,
        audit_export=AuditExport(records, identity, cookies),
        tunnels=TunnelClaims(deps),
        secrets=kept,
        shared_bus=shared_bus,
        shared_rates=shared_rates,
        traces=_traces(settings.traces, deps, delivers),
    )


@dataclass(frozen=True, slots=True)
class SignInParts:
    """The parts that find out who calls."""

    issuers: OidcIssuers
    passwords: ArgonPasswords
    identity: CredentialAuthenticator
    accounts: TokenExchange
    signin: SignIn


def _sign_in_parts(deps: OperationContext, settings: AuthSettings) -> SignInParts:
    issuers = OidcIssuers(_clients(settings), deps.clock, settings.oidc_ca_file)
    federation, passwords = Federation(deps, issuers), ArgonPasswords()
    return SignInParts(
        issuers,
        passwords,
        CredentialAuthenticator(deps, DeployTokenReader(deps.store), federation),
        TokenExchange(deps, issuers),
        SignIn(deps, federation, passwords, local=settings.local),
    )


def _api(operations: Operations, settings: ControlPlaneSettings) -> ApiBackend:
    return ApiBackend(
        operations.by_type(),
        operations.identity,
        agents_port=settings.agents_port,
        signing_key=settings.signing_key,
        introspection=settings.introspection,
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """Operations that loops and routes use in addition to the API."""

    entry: SignInParts
    requests: AccessRequests
    repositories: RepositoryOperations
    targets: GeneratorReconciler
    pipelines: Pipelines
    triggers: Triggers
    records: AuditLogOperations
    jobs: ClusterJobs
    secrets: SecretParts


def _operations(deps: OperationContext, shared: _Shared) -> Operations:
    """Builds all operations; those in `shared` exist already."""
    components = ComponentOperations(deps)
    return Operations(
        identity=shared.entry.identity,
        people=UserOperations(deps),
        accounts=shared.entry.accounts,
        projects=Projects(deps),
        rights=AccessControl(deps),
        requests=shared.requests,
        clusters=Clusters(deps),
        repositories=shared.repositories,
        services=Services(deps),
        contexts=ServiceContexts(deps),
        flows=ConfigurationFlow(deps),
        secrets=Secrets(deps),
        refreshing=shared.secrets.refreshing,
        keys=shared.secrets.keys,
        deployment=DeploymentSettingsOperations(deps),
        globals=GlobalServices(deps, shared.targets),
        sets=ServiceSets(deps, shared.targets),
        namespaces=ManagedNamespaces(deps, shared.targets),
        cluster_groups=ClusterGroups(deps),
        components=components,
        blame=Blame(deps, components),
        diffs=Diffs(deps),
        pipelines=shared.pipelines,
        pipeline_overrides=ReleaseDecisions(deps, shared.pipelines),
        whatifs=PipelineReplays(deps, shared.pipelines),
        triggers=shared.triggers,
        records=shared.records,
        reports=LedgerReports(deps),
        search=SearchOperations(deps),
        clock=deps.clock,
        notifying=NotificationOperations(deps),
        interventions=AgentCommands(deps),
        cluster_jobs=shared.jobs,
        streams=OpenRequestOperations(deps),
        bus=deps.bus,
    )


def _shared_parts(
    settings: ControlPlaneSettings, clock: Clock
) -> tuple[RequestLimiter, RateExchange | None, RedisBus | None]:
    """Returns the parts that replicas share through Redis; without
    it, this replica counts alone.
    """
    most = math.ceil(settings.api.requests_per_minute * WINDOW_S / 60)
    rates = RequestLimiter(RatePolicy.per(WINDOW_S, most) if most else None)
    if settings.redis is None:
        return rates, None, None
    url = settings.redis.get_secret_value()
    return rates, RateExchange(url, rates, clock), RedisBus(url, clock)


def _with_agent_renders(
    deps: OperationContext, lender: CredentialIssuer | None
) -> OperationContext:
    """Adds renders by agents, if there are credentials for them."""
    if lender is None:
        return deps
    return replace(deps, manifests=AgentRenderedManifests(deps.manifests, lender, deps))


def _traces(
    settings: TraceSettings, deps: OperationContext, delivers: Callable[[str], bool]
) -> Traces | None:
    if not settings.url:
        return None
    value = settings.authorization.get_secret_value()
    spans = OtlpSpans(settings.url, {"Authorization": value} if value else {}, settings.ca_file)
    return Traces(TraceExportLoop(deps.store, spans, delivers, deps.clock), spans)


def _pipeline_loop(
    deps: OperationContext,
    pipelines: Pipelines,
    repositories: RepositoryOperations,
    checks: CheckRunner,
    triggers: Triggers,
) -> PipelineLoop:
    promotions = Promotions(deps, pipelines, repositories)
    return PipelineLoop(
        pipelines,
        promotions,
        checks,
        triggers,
        deps.manifests,
        deps.store,
        deps.bus,
        deps.clock,
        holder=deps.new_id(),
    )


async def _secret_parts(
    deps: OperationContext,
    ring: EnvelopeSealer,
    own_key: bytes,
    settings: SecretSettings,
    identity: CredentialAuthenticator,
) -> SecretParts:
    keys = await _keys(deps, ring, own_key, settings)
    sources = _sources(settings, identity)
    refreshing = SecretRefresher(deps, sources)
    loop = SecretLoop(Rotations(deps), refreshing, keys, deps.bus, deps.clock)
    return SecretParts(sources, loop, refreshing, keys)


async def _keys(
    deps: OperationContext, ring: EnvelopeSealer, own_key: bytes, settings: SecretSettings
) -> DataKeyOperations:
    """Puts all data keys into the ring, wrapped by the key of the settings."""
    before = [LocalKek(own_key), *(_kek(kek, own_key) for kek in settings.previous)]
    keys = DataKeyOperations(
        deps, ring, _kek(settings.kek, own_key), {kek.name: kek for kek in before}
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


def _sources(settings: SecretSettings, identity: CredentialAuthenticator) -> ExternalSecretSources:
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
    return ExternalSecretSources(vaults, os.environ, settings.environment, identity.actor_of)


def _retention(settings: AuditSettings) -> dict[AuditKind, timedelta]:
    """Returns the retention of each kind of rows; without an entry, forever."""
    days = {
        AuditKind.CHANGE: settings.change_days,
        AuditKind.SIGN_IN: settings.sign_in_days,
        AuditKind.REQUEST: settings.request_days,
        AuditKind.AGENT: settings.agent_days,
    }
    return {kind: timedelta(days=count) for kind, count in days.items() if count}


def _scim_issuers(settings: AuthSettings) -> dict[str, str]:
    """Returns the issuer for which each service account pushes users and groups."""
    return {issuer.scim_account: issuer.issuer for issuer in settings.oidc if issuer.scim_account}


def _clients(settings: AuthSettings) -> list[OidcClient]:
    return [
        OidcClient(
            issuer=Issuer(
                issuer.name, issuer.issuer, issuer.title or issuer.name, issuer.required_groups
            ),
            client_id=issuer.client_id,
            client_secret=issuer.client_secret.get_secret_value(),
            scopes=issuer.scopes,
            groups_claim=issuer.groups_claim,
            audience=issuer.audience,
        )
        for issuer in settings.oidc
    ]
