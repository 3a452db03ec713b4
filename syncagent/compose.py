"""Composition of the agent; the only module that knows all its parts."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.errors import Invalid, TowlineError, Unavailable
from core.identity import new_id
from core.rpc.calls import CallChannel
from core.runtime.clock import Clock, SystemClock
from core.runtime.tasks import Tasks
from core.runtime.trust_files import system_authorities
from core.spec.objects import ObjectRef
from core.spec.statements.attestation import TrustedKeys, read_public_keys
from core.spec.statements.freeze import FreezeKeys
from core.tls import client_context
from syncagent.autonomy.admission import DesiredStateAdmission, StoredStateCheck
from syncagent.autonomy.definition_sources import (
    DefinitionConfigMaps,
    DefinitionFolder,
    DefinitionRepository,
)
from syncagent.autonomy.folder_renders import FolderRenders
from syncagent.autonomy.freeze import FreezeSwitch
from syncagent.autonomy.inputs import InputVerifier
from syncagent.autonomy.installation import JoinedInstallation
from syncagent.autonomy.policy import JobPolicy, LocalPolicy, SourcePolicy
from syncagent.autonomy.services import LocalServicePorts, LocalServices
from syncagent.autonomy.tenants import parse_tenants
from syncagent.domain.tenants import TenantPolicy
from syncagent.jobs.runner import JobRunner
from syncagent.kube.access import ApiServerAccess, from_kubeconfig, in_cluster
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.kube.configmaps import KubeConfigMaps, KubeFreezeConfigMap
from syncagent.kube.credentials import CredentialSecret
from syncagent.kube.facts import KubeFacts
from syncagent.kube.fenced import KubeFences, KubeJobFences
from syncagent.kube.impersonation import ImpersonationProof, impersonation_problem
from syncagent.kube.impersonator import token_of
from syncagent.kube.metrics import KubeMetrics
from syncagent.kube.server_tls import RotatedTls
from syncagent.link.channel import LOOPBACK, Endpoint, proxy_to, websocket_forwarder
from syncagent.link.commands import Commands
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.joining import (
    AgentCredentials,
    ClusterJoin,
    CredentialFile,
    CredentialStore,
    StoredInSecret,
)
from syncagent.link.logs import LogQueue
from syncagent.link.orders import SignedOrders
from syncagent.link.reports import OutboxReports
from syncagent.link.session import LinkPorts
from syncagent.link.supervisor import AgentIdentity, LinkSupervisor
from syncagent.ports import (
    CommandAnswers,
    DefinitionSource,
    FollowedRepositories,
    LocalRenders,
    OrderedRenders,
)
from syncagent.reconcile.engine import ReconcileEngine, ReconcilePorts
from syncagent.rendering.orders import RenderOrders
from syncagent.settings import (
    AutonomySettings,
    FreezeSettings,
    HealthSettings,
    HubSettings,
    KubernetesSettings,
    Settings,
    UpgradeSettings,
    split_list,
)
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.identities import AgeIdentities
from syncagent.state.installation import InstallationFile
from syncagent.state.jobs import SqliteJobStore
from syncagent.state.keys import load_or_create_sealing_key
from syncagent.state.orders import SqliteOrderLedger
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.data_link import ControlPlaneHost
from syncagent.tunnel.egress import EgressPolicy
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.keeper import TunnelKeeper

if TYPE_CHECKING:
    from core.links.websocket import WebSocketForwarder
from syncagent.tunnel.proof import ProofVerifier
from syncagent.tunnel.upstream import Upstream
from syncagent.upkeep.credentials import TokenRenewal
from syncagent.upkeep.doctor import ControlPlaneAccess, DoctorResult, check_signing_key
from syncagent.upkeep.status_server import StatusServer, Vitals
from syncagent.upkeep.upgrade import AgentDeployment, Upgrader

log = structlog.get_logger(__name__)

PINNED_KEY = "signing-key.json"
CREDENTIALS = "credentials.json"


@dataclass(frozen=True, slots=True)
class Freezing:
    """The freeze of this cluster, its effects, and the places that may contain statements."""

    switch: FreezeSwitch
    client: KubeClient
    tunnel: TunnelKeeper
    engine: ReconcileEngine
    file: Path | None = None
    configmap: KubeFreezeConfigMap | None = None

    async def run(self) -> None:
        """Follows statements until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.switch.run(self._freeze, self._thaw))
            tasks.create_task(self.switch.follow(self.file, self.configmap))

    async def _freeze(self) -> None:
        """Ends everything that is under way: open requests of users, and writes of the agent."""
        self.tunnel.end_streams(self.switch.reason)
        self.client.interrupt_writes()

    async def _thaw(self) -> None:
        self.engine.resume()


@dataclass(frozen=True, slots=True)
class Agent:
    """The assembled agent; call `run` once."""

    engine: ReconcileEngine
    jobs: JobRunner
    facts: ClusterFactsCache
    reports: OutboxReports
    link: LinkSupervisor
    client: KubeClient
    database: Database
    upgrader: Upgrader
    orders: RenderOrders
    freezing: Freezing
    renewal: TokenRenewal
    local: LocalServices | None = None
    status_pages: StatusServer | None = None
    forwarder: "WebSocketForwarder | None" = None

    async def run(self, stop: asyncio.Event) -> None:
        """Reconciles and stays connected until `stop` is set; raises if a part fails permanently.
        Shutdown order: the link, then work on services, then connections and the state.
        """
        tasks = Tasks("agent")
        try:
            self.engine.start()
            self.jobs.start()
            await self.orders.start()
            if self.status_pages is not None:
                await self.status_pages.start()
            if self.local is not None:
                tasks.forever("local", self.local.run())
            tasks.forever("facts", self.facts.watch(self.reports))
            tasks.forever("token", self.renewal.run())
            if self.forwarder is not None:
                tasks.forever("pipe", self.forwarder.run())
            if self.freezing.switch.enabled:
                tasks.forever("freeze", self.freezing.run())
            tasks.forever("link", self.link.run())
            await self._wait_until(tasks, tasks.spawn("stop", stop.wait()))
        finally:
            await tasks.stop()
            if self.status_pages is not None:
                await self.status_pages.stop()
            await self.upgrader.stop()
            await self.orders.stop()
            await self.jobs.stop()
            await self.engine.stop()
            await self.client.close()
            self.database.close()

    async def _wait_until(self, tasks: Tasks, stopping: asyncio.Task[bool]) -> None:
        failures = (
            tasks.spawn("engine-failed", self.engine.failed()),
            tasks.spawn("link-failed", tasks.wait_failed()),
        )
        await asyncio.wait((stopping, *failures), return_when=asyncio.FIRST_COMPLETED)
        for failure in failures:
            if failure.done():
                raise failure.result()


def build(
    settings: Settings,
    clock: Clock | None = None,
    repositories: FollowedRepositories | None = None,
    renders: OrderedRenders | None = None,
    proofs: ProofVerifier | None = None,
) -> Agent:
    """Builds an agent from its settings.
    Call it in the event loop in which the agent runs. `repositories` renders services that this
    cluster defines in git; without it, such services are refused. `renders` executes render orders
    of the control plane; without it, orders are refused. `proofs` verifies the identity of users;
    without it, the agent accepts the identities that the control plane sends. Invalid: no access to
    the cluster. Unavailable: the state directory cannot be used.
    """
    if settings.identity.issuer and proofs is None:
        raise Invalid("identity.issuer needs the verification of its tokens")
    database = Database(settings.state.directory / "agent.db")
    try:
        return _build(settings, database, clock or SystemClock(), repositories, renders, proofs)
    except BaseException:
        database.close()
        raise


def _build(
    settings: Settings,
    database: Database,
    clock: Clock,
    repositories: FollowedRepositories | None,
    renders: OrderedRenders | None,
    proofs: ProofVerifier | None,
) -> Agent:
    folder, policy = settings.state.directory, _local_policy(settings.autonomy)
    outbox = SqliteOutbox(database, clock)
    reports, logs = OutboxReports(outbox), LogQueue()
    access = access_to(settings.kubernetes, clock)
    freeze = freeze_switch(settings, clock, reports)
    client = KubeClient(access, clock, settings.kubernetes.concurrency, freeze.check)
    cluster = KubeCluster(client, clock, policy.check)
    tenants = _read_tenants(settings.autonomy)
    fences, job_fences = _fences(tenants, policy, client, cluster)
    key = load_or_create_sealing_key(folder / "sealing.key")
    forwarder = _websocket_forwarder(settings.hub, clock)
    endpoint, instance_id = _endpoint(settings.hub, forwarder), new_id(clock.now())
    fetcher = BundleTransfer(endpoint.metadata)
    trusted, installation = _trusted_keys_and_pin(settings)
    sources = _source_policy(settings.autonomy, tenants, trusted)
    inputs = InputVerifier(trusted, sources, clock, settings.autonomy.defines)
    stored = StoredStateCheck(inputs, key)
    bundles = BundleFiles(folder / "bundles")
    memory = SqliteStateStore(database, stored.check)
    metrics = KubeMetrics(client, allowed_metrics(settings.autonomy))
    ports = ReconcilePorts(cluster, fences, bundles, fetcher, memory, reports, inputs, metrics)
    engine = ReconcileEngine(ports, clock, key, AgeIdentities(settings.secrets.age_keys))
    store, job_policy = SqliteJobStore(database), JobPolicy(policy, settings.autonomy.jobs)
    jobs = JobRunner(job_fences, store, reports, key, job_policy.check, logs.put, clock)
    local = _local_services(settings.autonomy, client, engine, ports, reports, repositories)
    refresh, report_all = (local.refresh, local.report_all) if local is not None else (None, None)
    admission = DesiredStateAdmission(engine, inputs, reports, refresh, report_all)
    renewal = TokenRenewal(access.kubeconfig_token, client, clock)
    facts = ClusterFactsCache(KubeFacts(client, lambda: renewal.end).collect, clock)
    tunnel = _tunnel(access, client, endpoint, instance_id, settings, clock, proofs, freeze)
    freezing = _freezing(settings.freeze, freeze, client, tunnel, engine)
    upgrader = Upgrader(_agent_deployment(settings.upgrade), cluster, jobs, reports, clock)
    orders = RenderOrders(key, renders, fetcher, reports)
    link = LinkSupervisor(
        endpoint,
        AgentIdentity(instance_id, local is not None, key.public),
        LinkPorts(
            admission,
            Commands(admission, jobs, upgrader, orders, freeze),
            outbox,
            logs,
            clock,
            partial(_current_problem, database, local, tunnel, freeze, installation, renewal),
            _order_verification(
                settings.autonomy, database, installation, trusted, admission, clock
            ),
        ),
        fetcher,
        facts,
        (tunnel.run,),
    )
    return Agent(
        engine,
        jobs,
        facts,
        reports,
        link,
        client,
        database,
        upgrader,
        orders,
        freezing,
        renewal,
        local,
        _build_status_server(settings.health, engine, link, outbox, jobs, database),
        forwarder,
    )


def _current_problem(
    database: Database,
    local: LocalServices | None,
    tunnel: TunnelKeeper,
    freeze: FreezeSwitch,
    installation: JoinedInstallation,
    renewal: TokenRenewal,
) -> str:
    """Describes the present problem of the agent; empty: none."""
    own = local.problem if local is not None else ""
    problems = (database.disk_error, installation.problem, own, tunnel.problem, renewal.problem)
    return freeze.reason or next(filter(None, problems), "")


def _trusted_keys_and_pin(settings: Settings) -> tuple[TrustedKeys, JoinedInstallation]:
    """Reads the trusted keys, and the pinned key of the installation."""
    trusted, hub = _read_trusted_keys(settings.autonomy), settings.hub
    file = InstallationFile(settings.state.directory / PINNED_KEY)
    return trusted, JoinedInstallation(trusted, file, hub.signing_key, hub.cluster_id)


def _order_verification(
    settings: AutonomySettings,
    database: Database,
    installation: JoinedInstallation,
    trusted: TrustedKeys,
    admission: DesiredStateAdmission,
    clock: Clock,
) -> SignedOrders | None:
    """Builds the verification of orders; None if the operator accepts unsigned ones."""
    if settings.unsigned:
        return None
    return SignedOrders(installation, trusted, SqliteOrderLedger(database), admission, clock)


def _local_services(
    settings: AutonomySettings,
    client: KubeClient,
    engine: ReconcileEngine,
    ports: ReconcilePorts,
    reports: OutboxReports,
    repositories: FollowedRepositories | None,
) -> LocalServices | None:
    """Builds the services of the cluster's own; None if only the control plane defines services."""
    if not settings.defines:
        return None

    async def place() -> str:
        live = await ports.cluster.get(ObjectRef("", "v1", "Namespace", "", "kube-system"))
        if live is None:
            raise Unavailable("the cluster has no namespace kube-system, whose uid identifies it")
        return live["metadata"]["uid"]

    renders = FolderRenders(settings.services, repositories)
    return LocalServices(
        _definition_sources(settings, client, renders),
        f"file://{settings.services}",
        place,
        LocalServicePorts(
            renders, engine.desire, ports.bundles, ports.memory, reports, repositories
        ),
    )


def _definition_sources(
    settings: AutonomySettings, client: KubeClient, renders: LocalRenders
) -> list[DefinitionSource]:
    """Lists the places that define services of this cluster."""
    found: list[DefinitionSource] = []
    if settings.services is not None:
        found.append(DefinitionFolder(settings.services))
    if settings.configmaps:
        found.append(DefinitionConfigMaps(KubeConfigMaps(client), settings.configmaps))
    if settings.repository:
        found.append(
            DefinitionRepository(renders, settings.repository, settings.ref, settings.folder)
        )
    return found


def client_of(settings: KubernetesSettings, clock: Clock) -> KubeClient:
    """Opens a session with the API server; the caller must close it."""
    return KubeClient(access_to(settings, clock), clock, settings.concurrency)


def control_plane_access(hub: HubSettings) -> ControlPlaneAccess:
    """Describes the doctor's connection to the control plane."""
    ca, host = hub.ca_file.read_bytes() if hub.ca_file else None, urlsplit(hub.address).hostname

    @asynccontextmanager
    async def connect() -> AsyncGenerator[CallChannel]:
        clock, tasks = SystemClock(), Tasks("doctor")
        forwarder = _websocket_forwarder(hub, clock)
        if forwarder is not None:
            tasks.spawn("pipe", forwarder.run())
        channel = _endpoint(hub, forwarder).connect(clock)
        try:
            yield channel
        finally:
            await channel.close()
            await tasks.stop()

    return ControlPlaneAccess(
        hub.address, ca, hub.server_name, hub.token, connect, proxy_to(host or "")
    )


async def joined_settings(settings: Settings, clock: Clock) -> Settings:
    """Returns settings with a deploy token; without one, the agent registers its cluster.

    Meanwhile the agent is alive but not ready. Invalid: the control plane refuses the bootstrap
    token or the cluster.
    """
    if settings.hub.token:
        return settings
    client = client_of(settings.kubernetes, clock)
    try:
        join, store = _cluster_join(settings.hub, client), _credentials(settings, client)
        async with _health_pages_before_join(settings.health):
            return _with_credentials(settings, await join.obtain(store, clock))
    finally:
        await client.close()


@asynccontextmanager
async def _health_pages_before_join(settings: HealthSettings) -> AsyncGenerator[None]:
    """Serves the health pages of an agent that has no credentials yet."""
    if not settings.listen:
        yield
        return
    status_pages = StatusServer(
        settings.listen, lambda: Vitals(False, False, 0, 0, 0, joining=True)
    )
    await status_pages.start()
    try:
        yield
    finally:
        await status_pages.stop()


async def check_join(settings: Settings, client: KubeClient) -> tuple[Settings, DoctorResult]:
    """Checks the bootstrap token; returns the settings with the stored token, if there is one."""
    try:
        known = await _credentials(settings, client).load()
        if known is not None:
            text = f"the cluster has joined; ID {known.cluster_id}"
            return _with_credentials(settings, known), DoctorResult("joins", True, text)
        await _cluster_join(settings.hub, client).check()
    except TowlineError as error:
        return settings, DoctorResult("joins", False, error.message)
    text = "the control plane accepts the bootstrap token; the agent joins at its start"
    return settings, DoctorResult("joins", True, text)


def _with_credentials(settings: Settings, found: AgentCredentials) -> Settings:
    cluster_id = settings.hub.cluster_id or found.cluster_id
    return replace(settings, hub=replace(settings.hub, token=found.token, cluster_id=cluster_id))


def _credentials(settings: Settings, client: KubeClient) -> CredentialStore:
    if place := settings.hub.credentials_secret:
        return StoredInSecret(CredentialSecret(client, place))
    return CredentialFile(settings.state.directory / CREDENTIALS)


def _cluster_join(hub: HubSettings, client: KubeClient) -> ClusterJoin:
    async def read_uid() -> str:
        found = await client.request("GET", "/api/v1/namespaces/kube-system")
        return str(found["metadata"]["uid"])

    connect = control_plane_access(hub).connect
    return ClusterJoin(hub.bootstrap_token, hub.cluster_name, connect, read_uid)


def signing_key_check(settings: Settings) -> DoctorResult:
    """Checks the pinned signing key. Invalid, Unavailable: its file cannot be read."""
    pin = InstallationFile(settings.state.directory / PINNED_KEY).load()
    expected, unsigned = settings.hub.signing_key, settings.autonomy.unsigned
    return check_signing_key(pin, expected, unsigned=unsigned)


def _build_status_server(
    settings: HealthSettings,
    engine: ReconcileEngine,
    link: LinkSupervisor,
    outbox: SqliteOutbox,
    jobs: JobRunner,
    database: Database,
) -> StatusServer | None:
    def vitals() -> Vitals:
        return Vitals(
            linked=link.linked,
            has_been_linked=link.has_been_linked,
            services=len(engine.stored_services()),
            waiting_reports=outbox.waiting(),
            running_jobs=jobs.running,
            state_error=database.disk_error,
        )

    return StatusServer(settings.listen, vitals) if settings.listen else None


def _agent_deployment(settings: UpgradeSettings) -> AgentDeployment | None:
    if not settings.deployment or not settings.namespace:
        return None
    return AgentDeployment(
        settings.namespace, settings.deployment, frozenset(split_list(settings.images))
    )


def _local_policy(settings: AutonomySettings) -> LocalPolicy:
    return LocalPolicy.of(split_list(settings.kinds), split_list(settings.namespaces))


def _source_policy(
    settings: AutonomySettings, tenants: TenantPolicy, trusted: TrustedKeys
) -> SourcePolicy:
    """Parses the allow-list of sources. Invalid: the list needs trusted keys."""
    if settings.sources and not trusted:
        raise Invalid(
            "autonomy.sources needs autonomy.trusted_keys, because only signatures prove a source"
        )
    if tenants.check_sources and not trusted:
        raise Invalid(
            "sources of autonomy.tenants need autonomy.trusted_keys, because only signatures prove "
            "a source"
        )
    listed = SourcePolicy.of(split_list(settings.sources), split_list(settings.values))
    return replace(listed, tenants=tenants)


def allowed_metrics(settings: AutonomySettings) -> frozenset[str] | None:
    """The addresses that verifications may query; None: all."""
    listed = frozenset(split_list(settings.metrics))
    return None if "*" in listed else listed


def _read_trusted_keys(settings: AutonomySettings) -> TrustedKeys:
    """Reads the trusted keys from the configured file. Invalid: it contains none."""
    required = not settings.unsigned
    if settings.trusted_keys is None:
        return TrustedKeys((), required=required)
    return TrustedKeys(_public_keys(settings.trusted_keys), required=required)


def _public_keys(path: Path) -> list[Ed25519PublicKey]:
    try:
        return read_public_keys(path.read_bytes())
    except Invalid as error:
        raise Invalid(f"{path} {error.message}") from None


def _fences(
    tenants: TenantPolicy, policy: LocalPolicy, client: KubeClient, cluster: KubeCluster
) -> tuple[KubeFences, KubeJobFences]:
    """Builds the fences of services and of jobs, within the policy of this cluster."""
    proof = ImpersonationProof(client)
    jobs = KubeJobFences(client, proof, cluster, tenants)
    return KubeFences(client, proof, cluster, policy.check, tenants), jobs


def _read_tenants(settings: AutonomySettings) -> TenantPolicy:
    """Reads the tenants from the configured file. Invalid: it cannot be read, or is none."""
    if settings.tenants is None:
        return TenantPolicy()
    try:
        return parse_tenants(settings.tenants.read_bytes())
    except OSError as error:
        raise Invalid(f"{settings.tenants} cannot be read: {error.strerror}") from None


def access_to(settings: KubernetesSettings, clock: Clock) -> ApiServerAccess:
    """Returns the access to the cluster's API server."""
    if settings.kubeconfig is not None:
        return from_kubeconfig(settings.kubeconfig, settings.context, clock)
    return in_cluster(clock)


def upstream_of(
    settings: KubernetesSettings, access: ApiServerAccess, client: KubeClient, clock: Clock
) -> Upstream:
    """Describes the API server to the tunnel. Invalid: the settings do not fit the kubeconfig."""
    address, tls, token = access.address, access.tls, access.bearer
    trusts_connections = access.certified or access.token is None
    if settings.impersonator:
        tls, token = access.anonymous_tls, token_of(settings.impersonator, client, clock).get
        trusts_connections = False
    if settings.passthrough and trusts_connections:
        raise Invalid(
            "kubernetes.passthrough needs a kubeconfig with a token: the API server would ignore "
            "users' tokens beside a client certificate"
        )
    return Upstream(
        address.host,
        address.port,
        tls,
        token,
        access.prefix.encode(),
        trusts_connections,
        access.server_name,
        access.proxy,
    )


async def tunnel_problem(
    settings: KubernetesSettings, access: ApiServerAccess, client: KubeClient, clock: Clock
) -> str:
    """Returns the reason if the API server must not get users' requests; empty: it may.
    Invalid: see `upstream_of`.
    """
    below_prefix = upstream_of(settings, access, client, clock).prefix
    try:
        return await impersonation_problem(client) if below_prefix else ""
    except Unavailable as error:
        return error.message


def _tunnel(
    access: ApiServerAccess,
    client: KubeClient,
    endpoint: Endpoint,
    instance_id: str,
    settings: Settings,
    clock: Clock,
    proofs: ProofVerifier | None,
    freeze: FreezeSwitch,
) -> TunnelKeeper:
    kubernetes = settings.kubernetes
    upstream = upstream_of(kubernetes, access, client, clock)
    egress = EgressPolicy.parse(settings.egress.allow)
    control_plane = ControlPlaneHost.of(endpoint.direct_host)
    allow = ImpersonationPolicy.parse(
        kubernetes.system_identities, passthrough=kubernetes.passthrough
    )

    def dial(channel: CallChannel) -> TunnelClient:
        return TunnelClient(
            channel,
            endpoint.metadata,
            upstream,
            clock,
            allow,
            instance=UUID(instance_id).bytes,
            egress=egress,
            proofs=proofs,
            frozen=lambda: freeze.reason,
            control_plane=control_plane,
        )

    return TunnelKeeper(dial, clock, partial(tunnel_problem, kubernetes, access, client, clock))


def freeze_switch(settings: Settings, clock: Clock, answers: CommandAnswers) -> FreezeSwitch:
    """Builds the freeze of this cluster. Invalid: the file of keys has none."""
    path, keys = settings.freeze.keys, FreezeKeys()
    if path is not None:
        keys = FreezeKeys(_public_keys(path))
    statement = settings.state.directory / "freeze"
    return FreezeSwitch(keys, settings.freeze.cluster, statement, clock, answers)


def _freezing(
    settings: FreezeSettings,
    switch: FreezeSwitch,
    client: KubeClient,
    tunnel: TunnelKeeper,
    engine: ReconcileEngine,
) -> Freezing:
    place = settings.configmap
    configmap = KubeFreezeConfigMap(client, place) if place else None
    return Freezing(switch, client, tunnel, engine, settings.file, configmap)


def _websocket_forwarder(hub: HubSettings, clock: Clock) -> "WebSocketForwarder | None":
    """Builds the WebSocket pipe for networks that pass only HTTPS; a wss:// address enables it."""
    if not hub.address.startswith(("wss://", "ws://")):
        return None
    own = [hub.ca_file] if hub.ca_file else []

    def load() -> ssl.SSLContext:
        tls = client_context()
        for path in own:
            tls.load_verify_locations(path)
        return tls

    tls = RotatedTls(load, lambda: [*system_authorities(), *own], clock)
    return websocket_forwarder(hub.address, tls.context)


def _endpoint(hub: HubSettings, forwarder: "WebSocketForwarder | None") -> Endpoint:
    ca = hub.ca_file.read_bytes() if hub.ca_file else None
    if forwarder is None:
        return Endpoint(hub.address, hub.token, ca, hub.server_name, hub.wire)
    name = hub.server_name or urlsplit(hub.address).hostname
    return Endpoint(f"https://{LOOPBACK}:{forwarder.port}", hub.token, ca, name, hub.wire)
