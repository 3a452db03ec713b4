"""Assembles the control plane; the only module that knows settings and concrete classes."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.agentlink.server import AgentLink
from controlplane.domain.audit import AuditKind
from controlplane.domain.rates import WINDOW_S, RequestLimiter
from controlplane.domain.signin import Issuer
from controlplane.events.livelogs import MemoryLiveLogs
from controlplane.events.memory import MemoryBus
from controlplane.events.rates import RateExchange
from controlplane.events.redis import RedisBus
from controlplane.gitports import GitWriter
from controlplane.graphql.context import Operations
from controlplane.graphql.schema import schema
from controlplane.http.audit import AuditExport
from controlplane.http.browser import Cookies
from controlplane.http.graphql import GraphQLEndpoint
from controlplane.http.scim import ScimRoutes
from controlplane.http.signin import SignInRoutes
from controlplane.loops.access import AccessExpiryLoop
from controlplane.loops.deliveries import NotificationLoop
from controlplane.loops.delivery import RenderLoop
from controlplane.loops.pipelines import PipelineLoop
from controlplane.loops.retention import RetentionLoop
from controlplane.loops.secrets import SecretLoop
from controlplane.loops.targets import GeneratorLoop
from controlplane.loops.traces import TraceExportLoop
from controlplane.notify.outward import GuardedSender
from controlplane.oidc.issuers import OidcClient, OidcIssuers
from controlplane.ports import CredentialIssuer, ManifestSource
from controlplane.registry.client import RegistryClient
from controlplane.secretports import KeyEncryption
from controlplane.secrets.envelope import EnvelopeSealer, load_or_make_key
from controlplane.secrets.external import ExternalSecretSources
from controlplane.secrets.hooks import CommandKek, HttpKek
from controlplane.secrets.keks import AgeKek, LocalKek, age_identity, key_of
from controlplane.secrets.passwords import ArgonPasswords
from controlplane.secrets.vault import KvStore, TransitKek, Vault
from controlplane.settings import (
    AuditSettings,
    AuthSettings,
    ControlPlaneSettings,
    KekKind,
    KekSettings,
    SecretSettings,
    TraceSettings,
)
from controlplane.storage.engine import make_engine, sqlite_url
from controlplane.storage.migrate import migrate
from controlplane.storage.store import SqlStore
from controlplane.telemetry.otlp import OtlpSpans
from controlplane.usecases.accounts import TokenExchange
from controlplane.usecases.agents import AgentOperations
from controlplane.usecases.blame import Blame
from controlplane.usecases.checks import CheckRunner
from controlplane.usecases.clustergroups import ClusterGroups
from controlplane.usecases.clusterjobs import ClusterJobs
from controlplane.usecases.clusters import Clusters
from controlplane.usecases.components import ComponentOperations
from controlplane.usecases.contexts import ServiceContexts
from controlplane.usecases.delivery import RenderReconciler
from controlplane.usecases.deployment import DeploymentSettingsOperations
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.diffs import Diffs
from controlplane.usecases.directory import ScimDirectory
from controlplane.usecases.federation import Federation
from controlplane.usecases.flows import ConfigurationFlow
from controlplane.usecases.globals import GlobalServices
from controlplane.usecases.identity import CredentialAuthenticator
from controlplane.usecases.interventions import AgentCommands
from controlplane.usecases.keys import DataKeyOperations
from controlplane.usecases.ledger import LedgerReports
from controlplane.usecases.namespaces import ManagedNamespaces
from controlplane.usecases.notification_routing import NotificationRouting, StateWatcher
from controlplane.usecases.notification_sending import NotificationSender
from controlplane.usecases.notifications import NotificationOperations
from controlplane.usecases.people import UserOperations
from controlplane.usecases.pipeline_overrides import ReleaseDecisions
from controlplane.usecases.pipelines import Pipelines
from controlplane.usecases.projects import Projects
from controlplane.usecases.promotions import Promotions
from controlplane.usecases.records import AuditLogOperations
from controlplane.usecases.refreshing import SecretRefresher
from controlplane.usecases.renders import AgentRenderedManifests
from controlplane.usecases.repositories import RepositoryOperations
from controlplane.usecases.requests import AccessRequests
from controlplane.usecases.rights import AccessControl
from controlplane.usecases.rotations import Rotations
from controlplane.usecases.search import SearchOperations
from controlplane.usecases.secrets import Secrets
from controlplane.usecases.services import Services
from controlplane.usecases.sets import ServiceSets
from controlplane.usecases.signin import SignIn
from controlplane.usecases.streams import OpenRequestOperations
from controlplane.usecases.targets import GeneratorReconciler
from controlplane.usecases.triggers import Triggers
from controlplane.usecases.tunnels import TunnelClaims
from controlplane.usecases.whatif import PipelineReplays
from core.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class SecretParts:
    """The parts for secrets."""

    sources: ExternalSecretSources
    loop: SecretLoop
    verbs: dict[str, Any]


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
    verbs: Operations
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
        await self.verbs.keys.close()
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
            SqlStore(engine), settings, manifests, clock, delivers, writer, lender
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
    issuers = OidcIssuers(_clients(settings.auth), clock, settings.auth.oidc_ca_file)
    federation, passwords = Federation(deps, issuers), ArgonPasswords()
    identity, accounts = CredentialAuthenticator(deps, federation), TokenExchange(deps, issuers)
    signin = SignIn(deps, federation, passwords, local=settings.auth.local)
    cookies = Cookies(settings.auth.public_url)
    requests, records = AccessRequests(deps), AuditLogOperations(deps)
    routing = NotificationRouting(deps)
    outward = GuardedSender(settings.notify.private_networks, settings.notify.ca_file)
    repositories, pipelines = RepositoryOperations(deps), Pipelines(deps)
    sending, targets = NotificationSender(deps, outward), GeneratorReconciler(deps)
    jobs = ClusterJobs(deps, logs)
    checks = CheckRunner(deps, pipelines, jobs, outward)
    kept = await _secret_parts(deps, sealer, own_key, settings.secrets, identity)
    await repositories.check_key()
    verbs = Operations(
        identity=identity,
        **_user_operations(deps),
        accounts=accounts,
        requests=requests,
        clusters=Clusters(deps),
        repositories=repositories,
        services=Services(deps),
        **kept.verbs,
        **_fleet_operations(deps, targets),
        **_report_operations(deps),
        pipelines=pipelines,
        **_pipeline_operations(deps, pipelines, repositories, outward),
        records=records,
        clock=clock,
        cluster_jobs=jobs,
        bus=bus,
        agents_port=settings.agents_port,
        signing_key=settings.signing_key,
        introspection=settings.introspection,
    )
    return ControlPlane(
        deps=deps,
        verbs=verbs,
        graphql=GraphQLEndpoint(schema, verbs, clock, rates, cookies),
        agentlink=AgentLink(AgentOperations(deps), identity, bus, logs, clock),
        delivery=RenderLoop(
            RenderReconciler(deps), repositories, manifests, store, bus, clock, delivers
        ),
        targets=targets,
        target_loop=GeneratorLoop(targets, manifests, store, bus, clock),
        pipelines=_pipeline_loop(deps, pipelines, repositories, checks, verbs.triggers),
        checks=checks,
        store=store,
        issuers=issuers,
        passwords=passwords,
        signin=signin,
        signin_routes=SignInRoutes(signin, identity, accounts, cookies, clock),
        scim=ScimRoutes(ScimDirectory(deps, _scim_issuers(settings.auth)), identity, cookies),
        access=AccessExpiryLoop(requests, clock),
        retention=RetentionLoop(records, routing, _retention(settings.audit), clock),
        news=NotificationLoop(routing, sending, StateWatcher(deps), bus, clock),
        outward=outward,
        audit_export=AuditExport(records, identity, cookies),
        tunnels=TunnelClaims(deps),
        secrets=kept,
        shared_bus=shared_bus,
        shared_rates=shared_rates,
        traces=_traces(settings.traces, deps, delivers),
    )


def _shared_parts(
    settings: ControlPlaneSettings, clock: Clock
) -> tuple[RequestLimiter, RateExchange | None, RedisBus | None]:
    """Returns the parts that replicas share through Redis; without
    it, this replica counts alone.
    """
    rates = RequestLimiter(math.ceil(settings.api.requests_per_minute * WINDOW_S / 60))
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


def _user_operations(deps: OperationContext) -> dict[str, Any]:
    """The operations on users and their permissions."""
    return {
        "people": UserOperations(deps),
        "projects": Projects(deps),
        "rights": AccessControl(deps),
    }


def _report_operations(deps: OperationContext) -> dict[str, Any]:
    """The operations that need the context alone, mostly reads."""
    return {
        "deployment": DeploymentSettingsOperations(deps),
        "diffs": Diffs(deps),
        "reports": LedgerReports(deps),
        "search": SearchOperations(deps),
        "notifying": NotificationOperations(deps),
        "interventions": AgentCommands(deps),
        "streams": OpenRequestOperations(deps),
    }


def _pipeline_operations(
    deps: OperationContext,
    pipelines: Pipelines,
    repositories: RepositoryOperations,
    outward: GuardedSender,
) -> dict[str, Any]:
    """The operations on pipelines besides `Pipelines` itself."""
    registries = RegistryClient(outward, deps.clock)
    return {
        "pipeline_overrides": ReleaseDecisions(deps, pipelines),
        "whatifs": PipelineReplays(deps, pipelines),
        "triggers": Triggers(deps, pipelines, repositories, registries),
    }


def _fleet_operations(deps: OperationContext, targets: GeneratorReconciler) -> dict[str, Any]:
    """The operations on services for many clusters, and on live objects."""
    components = ComponentOperations(deps)
    return {
        "globals": GlobalServices(deps, targets),
        "sets": ServiceSets(deps, targets),
        "namespaces": ManagedNamespaces(deps, targets),
        "cluster_groups": ClusterGroups(deps),
        "components": components,
        "blame": Blame(deps, components),
    }


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
    verbs = {
        "contexts": ServiceContexts(deps),
        "flows": ConfigurationFlow(deps),
        "secrets": Secrets(deps),
        "refreshing": refreshing,
        "keys": keys,
    }
    return SecretParts(sources, loop, verbs)


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
