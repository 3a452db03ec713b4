"""The process of `--target all`: assembles, starts and stops the control plane."""

import asyncio
import gc
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from prometheus_client import make_asgi_app

from controlplane import compose as controlplane
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.cluster_sources.operations import sources as cluster_sources
from controlplane.clusters.operations.kubernetes_access import ProxyAccess
from controlplane.configuration_sources.operations import sources as configuration_sources
from controlplane.foundation import lay_foundation
from controlplane.http.app import make_app
from controlplane.http.metrics import SnapshotMetrics
from controlplane.pipelines.http import WebhookRoutes
from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.platform.context import ACCESS, REVOKED
from controlplane.platform.ports import LOST_WAKES
from controlplane.reports.loop import MetricsSnapshotLoop
from controlplane.reports.model.installation_metrics import MetricsSnapshot
from controlplane.reports.ports import MetricsSnapshotStore
from controlplane.repositories.operations import RepositoryOperations
from controlplane.settings import ControlPlaneSettings
from core import __version__
from core.errors import Unavailable
from core.identity import ClusterId, TokenId
from core.rpc.methods import TUNNEL
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import Clock, SystemClock
from core.runtime.tasks import Tasks
from core.trusted_proxies import TrustedProxies
from gitcache.webhooks import Webhooks
from proxy import compose as proxy
from proxy.kube_proxy import KubeProxy
from proxy.tunnel.egress import EgressProxy
from proxy.tunnel.websocket import agents_route
from towline.serve.agent_chart import chart_route
from towline.serve.agent_manifests import ChartManifests
from towline.serve.bootstrap import restrict_permissions, write_first_token, write_setup_link
from towline.serve.console import console_folder
from towline.serve.data_lock import locked_directory
from towline.serve.git_cache import GitCacheComponent, listens_for_peers
from towline.serve.lifecycle import run_until_stopped, wait_for_failure
from towline.serve.listeners import (
    agents_server,
    backend_listener,
    check_addresses,
    check_ports,
    http_listener,
    listen_for_agents,
    listen_natively,
    own_host_names,
    server_certificate,
)
from towline.serve.live_digests import StoreLiveDigests
from towline.serve.live_objects import ProxyLiveObjects
from towline.serve.log_level import LogLevelFollower
from towline.serve.metrics import gauge, make_registry, metrics_listener
from towline.serve.proxy_adapters import ProxyAuditLog, ProxyAuthenticator, ProxyAuthorizer
from towline.serve.readiness import StoreReadiness
from towline.serve.replicas import ReplicaMembership
from towline.serve.sockets import OFF, Listener, address, serve, serve_backend
from towline.settings import ServeSettings

log = structlog.get_logger(__name__)
_COLLECT_AFTER = (20_000, 10, 2)


@dataclass(slots=True)
class ListenerAddresses:
    """Addresses of the listeners; None for a disabled one."""

    https: str
    agents: str
    http: str | None = None
    metrics: str | None = None
    peers: str | None = None
    replicas: str | None = None


class ControlPlaneProcess:
    """Runs all components of the control plane in one process."""

    def __init__(self, settings: ServeSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._listeners: list[Listener] = []
        self._not_ready: str | None = "starting"
        self._tasks = Tasks("serve")
        self._exit_stack = AsyncExitStack()

    async def start(self) -> ListenerAddresses:
        """Starts every component, stores first and listeners last.

        Raises Unavailable, Invalid or Conflict on failure, after stopping everything.
        """
        try:
            addresses = await self._start()
        except OSError as error:
            await self.stop()
            raise Unavailable(
                f"{error.filename or 'a component'} failed: {error.strerror}"
            ) from error
        except BaseException:
            await self.stop()
            raise
        gc.collect()
        gc.freeze()
        # Many live objects are audit rows that wait for their batch: collect less often. Full
        # collections follow soon enough that cycles of ended connections occupy few megabytes.
        gc.set_threshold(*_COLLECT_AFTER)
        self._not_ready = None
        return addresses

    async def stop(self) -> None:
        """Drains agents and clients, then stops all components in reverse order."""
        self._not_ready = "draining"
        await self._exit_stack.aclose()

    async def _start(self) -> ListenerAddresses:
        settings, clock, ends = self._settings, self._clock, self._exit_stack
        check_addresses(settings)
        check_ports(settings, peers=listens_for_peers(settings))
        restrict_permissions(settings.data, embedded=settings.database is None)
        if settings.database is None:
            ends.enter_context(locked_directory(settings.data))
        tls = server_certificate(
            settings.tls, settings.data / "tls", clock, settings.proxy.cluster_domain
        )
        self.foundation = await lay_foundation(_plane_settings(settings), clock)
        ends.push_async_callback(self.foundation.close)
        store = self.foundation.store
        self._audit = ProxyAuditLog(self.foundation.records, clock)
        self._replica = self._build_replica()
        self.kube_proxy = self._build_kube_proxy()
        egress = EgressProxy(clock, self.kube_proxy.find_route)
        await egress.start()
        ends.push_async_callback(egress.stop)
        self._git = GitCacheComponent(settings, clock, egress=egress, live=StoreLiveDigests(store))
        self.plane = await controlplane.build(self.foundation, self._outside_ports())
        ends.push_async_callback(self._git.stop)
        ends.push_async_callback(self.plane.stop)
        await write_first_token(self.plane, settings.data / "admin.token")
        self._peers = await self._git.start()
        self.foundation.start()
        await self.plane.start()
        ends.push_async_callback(self._audit.stop)
        self._audit.start()
        self._snapshot_loop = MetricsSnapshotLoop(self._take_snapshot, clock)
        ends.push_async_callback(self._snapshot_loop.stop)
        ends.push_async_callback(self._tasks.stop, grace=settings.drain_seconds)
        hosts = self.plane.operations[RepositoryOperations]
        self._webhooks = Webhooks(
            self._git.manifests, hosts.webhook_secret, clock, record_push=hosts.record_push
        )
        ends.push_async_callback(self._webhooks.tasks.stop)
        self._probe = StoreReadiness(store, clock, self._tasks)
        ends.push_async_callback(self.kube_proxy.stop)
        self.kube_proxy.start()
        self._replicas = None
        if self._replica is not None:
            ends.push_async_callback(self._replica.stop)
            self._replicas = await self._replica.start(self.kube_proxy)
        self._start_followers()
        return await self._listen(tls)

    def _start_followers(self) -> None:
        levels = LogLevelFollower(self._settings.data, self._settings.log_level, self._clock)
        self._tasks.forever("log level", levels.follow())
        self._tasks.forever("revocations", self._follow_revocations())
        self._tasks.forever("access", self._follow_access())

    async def _drain(self) -> None:
        await self.plane.agentlink.drain()
        await asyncio.gather(
            self.kube_proxy.drain(), *(listener.drain() for listener in self._listeners)
        )

    def parts(self) -> tuple[Tasks, ...]:
        """Background tasks that must not end before `stop`."""
        shared_bus = self.foundation.shared.bus
        return (
            self._tasks,
            self._audit.tasks,
            self._snapshot_loop.tasks,
            *self.kube_proxy.tasks,
            *self._git.parts(),
            *(part.tasks for part in self.plane.background),
            *((self._replica.tasks,) if self._replica is not None else ()),
            *((shared_bus.tasks,) if shared_bus is not None else ()),
        )

    async def wait_failed(self) -> BaseException:
        """Waits until a background task ends unexpectedly; returns the reason."""
        return await wait_for_failure(self._tasks, self.parts())

    def _build_replica(self) -> ReplicaMembership | None:
        """Builds the part that shares agents with other replicas, if Redis is configured."""
        if self._settings.redis is None:
            return None
        foundation = self.foundation
        return ReplicaMembership(
            self._settings, foundation.tunnels, foundation.context.bus, self._clock
        )

    def _build_kube_proxy(self) -> KubeProxy:
        identity = self.foundation.sign_in.identity
        self._access = ProxyAccess(self.foundation.context, identity)
        access = ProxyAuthorizer(self._access)

        async def authenticate_agent(token: str) -> tuple[ClusterId, TokenId]:
            cluster_id, token_id = await identity.authenticate_agent(token)
            return cluster_id, TokenId(token_id)

        return proxy.build(
            self._settings.proxy,
            self._clock,
            proxy.ProxyPorts(
                ProxyAuthenticator(identity), access, self._audit, access, authenticate_agent
            ),
            ingress=proxy.Ingress(
                self._settings.auth.public_url,
                TrustedProxies(self._settings.trusted_proxies),
                self._settings.proxy_protocol_senders,
            ),
            recordings=self._settings.data / "recordings",
            replicas=self._replica.proxy_config() if self._replica is not None else None,
        )

    def _outside_ports(self) -> controlplane.OutsidePorts:
        settings, hosts = self._settings, self._git.hosts
        own_ca = None if settings.tls.cert else settings.data / "tls" / "ca.crt"
        port = address(settings.listen_agents, "listen_agents")[1]
        live = ProxyLiveObjects(self.kube_proxy.internal_requests)
        return controlplane.OutsidePorts(
            self._git.manifests,
            self._git.delivers,
            writer=hosts,
            lender=hosts,
            pull_requests=hosts,
            git_tags=hosts,
            git_history=hosts,
            live=live,
            sessions=self.kube_proxy,
            management=live,
            agents=ChartManifests(
                settings.auth.public_url, port, own_ca, self._git.manifests.signing_identity
            ),
        )

    async def _listen(self, tls) -> ListenerAddresses:
        settings = self._settings
        agents_address = address(settings.listen_agents, "listen_agents")
        handlers = {**self.plane.agentlink.handlers, TUNNEL: self.kube_proxy.tunnels.serve}
        bridged = BridgedPeers()
        self._agents = agents_server(handlers, settings, self._clock, bridged)
        self._exit_stack.push_async_callback(self._agents.stop, settings.drain_seconds)
        port = await listen_for_agents(self._agents, agents_address, tls)
        operations = self.plane.operations
        app = make_app(
            self.plane.graphql,
            self._readiness,
            [
                self._webhooks.route,
                *WebhookRoutes(
                    operations[Triggers], operations[ReleaseDecisions], self._clock
                ).routes,
                agents_route(self._agents.direct, bridged),
                *self.plane.signin_routes.routes(),
                *self.plane.scim.routes,
                self.plane.audit_export.route,
                chart_route(),
            ],
            console_folder(),
            own_host_names(settings, tls),
            TrustedProxies(settings.trusted_proxies),
            settings.proxy.cluster_domain,
        )
        self._exit_stack.push_async_callback(self._drain)
        addresses = ListenerAddresses(
            https=await self._serve_http("https", app, settings.listen, tls),
            agents=f"{agents_address[0]}:{port}",
            peers=self._peers,
            replicas=self._replicas,
        )
        base = settings.auth.public_url.rstrip("/") or f"https://{addresses.https}"
        await write_setup_link(self.plane, base, settings.data / "setup.url")
        if settings.listen_http != OFF:
            addresses.http = await self._serve_http("http", app, settings.listen_http, None)
        if settings.listen_metrics != OFF:
            addresses.metrics = await self._serve_metrics(settings.listen_metrics)
        return addresses

    async def _serve_http(self, name: str, app, listen_address: str, tls) -> str:
        host_and_port = address(listen_address, f"listen ({name})")
        drain_seconds = self._settings.drain_seconds
        front = self.kube_proxy.front
        if front is None:
            protocol = self.kube_proxy.protocol_class
            listener = http_listener(app, protocol, host_and_port, tls, self._settings)
            return await self._serve(name, listener)
        if not front.backend.path.exists():
            listener = backend_listener(
                app, front.protocol_class, front.backend.path, drain_seconds
            )
            self._listeners.append(listener)
            await serve_backend(self._tasks, "users", listener)
        return f"{host_and_port[0]}:{listen_natively(front, name, host_and_port, tls)}"

    async def _serve_metrics(self, text: str) -> str:
        connected = gauge(
            "towline_agents_connected",
            "Number of agents connected to this replica.",
            lambda: len(self.plane.agentlink.connected()),
        )
        incompatible = gauge(
            "towline_proxy_incompatible_agents",
            "Number of agents whose data link has another version.",
            lambda: self.kube_proxy.tunnels.incompatible_agents,
        )
        registry = make_registry(
            [
                self.kube_proxy.meters,
                incompatible,
                *self._git.meters,
                self.plane.graphql.meters,
                SnapshotMetrics(self._snapshot_loop),
                connected,
            ]
        )
        await self._snapshot_loop.start()
        return await self._serve("metrics", metrics_listener(make_asgi_app(registry), text))

    async def _take_snapshot(self) -> MetricsSnapshot:
        async with self.foundation.store.read() as tx:
            census = await tx[MetricsSnapshotStore].take(self._clock.now())
            return replace(
                census,
                sources=await configuration_sources.count_results(tx),
                cluster_sources=await cluster_sources.count_results(tx),
            )

    async def _serve(self, name: str, listener: Listener) -> str:
        port = await serve(self._tasks, name, listener)
        self._listeners.append(listener)
        return f"{listener.config.host}:{port}"

    async def _follow_revocations(self) -> None:
        """Ends everything that a revoked token opened; `AgentLink` ends its own calls."""
        async for _, token_id in self.plane.context.bus.subscribe(REVOKED):
            self.plane.operations[CredentialAuthenticator].drop_token(token_id)
            self._access.drop_token(token_id)
            self.kube_proxy.gateway.revoke(token=token_id)
            self.kube_proxy.tunnels.revoke(token_id)

    async def _follow_access(self) -> None:
        """Ends open requests of users who lost their permission.

        Checks all users if events may have been lost.
        """
        async for _, user_id in self.plane.context.bus.subscribe(ACCESS, LOST_WAKES):
            self.plane.operations[CredentialAuthenticator].drop_user(user_id)
            self._access.drop_user(user_id)
            await self.kube_proxy.gateway.recheck(user_id or None)

    async def _readiness(self) -> str | None:
        return self._not_ready or await self._probe.problem()


async def run(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT; raises if a background task fails."""
    process = ControlPlaneProcess(settings)

    async def start() -> None:
        log_addresses(await process.start(), settings.data)

    await run_until_stopped(process, start)


def log_addresses(addresses: ListenerAddresses, data: Path) -> None:
    """Logs the addresses of all listeners."""
    log.info(
        "ready",
        action="serve.ready",
        https=f"https://{addresses.https}",
        http=f"http://{addresses.http}" if addresses.http else OFF,
        agents=addresses.agents,
        peers=addresses.peers or OFF,
        replicas=addresses.replicas or OFF,
        data=str(data),
        version=__version__,
    )
    if addresses.http:
        log.warning(
            "HTTP without TLS is open, for this machine or an ingress; disable it with "
            "--listen-http off",
            action="serve.plain_http",
            http=f"http://{addresses.http}",
        )


def _plane_settings(settings: ServeSettings) -> ControlPlaneSettings:
    return ControlPlaneSettings(
        data_dir=settings.data,
        database=settings.database,
        agents_port=address(settings.listen_agents, "listen_agents")[1],
        cluster_domain=settings.proxy.cluster_domain,
        redis=settings.redis,
        introspection=settings.introspection,
        api=settings.api,
        auth=settings.auth,
        audit=settings.audit,
        notify=settings.notify,
        traces=settings.traces,
        secrets=settings.secrets,
    )
