"""Composition of the Kubernetes proxy."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from core.mux.budget import ReceiveBudget
from core.mux.mux import MuxSettings
from core.native import data_link_version
from core.runtime.clock import Clock
from core.trusted_proxies import TrustedProxies
from proxy.fast_path.front import Backend, NativeFront, make_hub, make_passed_class
from proxy.fast_path.repeats import RepeatedReads
from proxy.fast_path.splices import SplicedRequests
from proxy.gateway.authorize.agents import AgentLocator
from proxy.gateway.authorize.authorizer import RequestAuthorizer
from proxy.gateway.connection import make_protocol_class
from proxy.gateway.gateway import Gateway
from proxy.gateway.handler import RequestHandler
from proxy.gateway.internal_requests import InternalClient
from proxy.gateway.parse.cluster_hosts import ClusterHosts
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.gateway.record.recorder import NoSessionRecorder, RequestRecorder
from proxy.kube_proxy import KubeProxy, LocalInspector, ReplicaSharing
from proxy.ports import (
    AgentAuthenticator,
    AgentPresence,
    Authenticator,
    Authorizer,
    RequestAudit,
    TunnelRegistry,
)
from proxy.recording.files import FileRecorder
from proxy.replicas.client import ReplicaClient
from proxy.replicas.links import ReplicaLinks
from proxy.replicas.relay import Relay
from proxy.replicas.router import ReplicaRouter
from proxy.replicas.server import QuestionServer
from proxy.replicas.shared_limits import SharedLimits
from proxy.settings import ProxySettings
from proxy.tunnel.data_links import DataLinks
from proxy.tunnel.server import TunnelServer


@dataclass(frozen=True, slots=True)
class ProxyPorts:
    """The ports that the control plane implements."""

    authenticator: Authenticator
    authorizer: Authorizer
    audit: RequestAudit
    presence: AgentPresence
    authenticate_agent: AgentAuthenticator


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """The other replicas: a registry of agent links, the id of this replica, and the contexts for
    mutual TLS.
    """

    registry: TunnelRegistry
    me: str
    server: ssl.SSLContext
    client: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Ingress:
    """The way of users to this proxy: the URL of this installation for browsers, the proxies that
    name the addresses of users in headers, and those that do so with the PROXY protocol.
    """

    public_url: str = ""
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    balancers: TrustedProxies | None = None


def build(
    settings: ProxySettings,
    clock: Clock,
    ports: ProxyPorts,
    *,
    ingress: Ingress | None = None,
    recordings: Path | None = None,
    replicas: ReplicaConfig | None = None,
) -> KubeProxy:
    """Builds a Kubernetes proxy over these ports.
    `recordings`: folder for recordings of terminal sessions; without it, sessions that must be
    recorded are refused. `replicas`: the replicas that share agents with this one.
    """
    ingress = ingress or Ingress()
    limits, timeouts = settings.streams, settings.timeouts
    open_requests, metrics = OpenRequests(limits), ProxyMetrics()

    # Links to agents, of this replica and of the others
    budget = ReceiveBudget(settings.memory)
    registry = replicas.registry if replicas is not None else None
    backend = Backend() if settings.uses_native else None
    hub = None
    if backend is not None:
        hub = make_hub(
            backend,
            settings.head,
            limits,
            timeouts,
            settings.memory,
            ingress.balancers,
            http2=settings.http2,
        )
    data_links = DataLinks(hub, clock, data_link_version()) if hub is not None else None
    tunnels = TunnelServer(
        ports.authenticate_agent, clock, budget, MuxSettings(), registry, data_links
    )
    sharing = None
    if replicas is not None:
        sharing = _share_agents(replicas, tunnels, budget, open_requests, clock)
    router = sharing.router if sharing is not None else tunnels

    # Stages of a request; each connection parses with a parser of its own
    agents = AgentLocator(router, ports.presence, clock, limits.per_agent)
    authorizer = RequestAuthorizer(
        ports.authenticator, ports.authorizer, agents, clock, timeouts, settings.passthrough
    )
    sessions = FileRecorder(recordings, settings.recordings, clock) if recordings else None
    recorder = RequestRecorder(ports.audit, sessions or NoSessionRecorder(), open_requests, metrics)
    hosts = ClusterHosts(settings.cluster_domain)
    handler = RequestHandler(authorizer, recorder, clock, hosts)

    # Sources of requests: users' connections, this process, other replicas
    internal_requests = InternalClient(handler, settings.head)
    gateway = Gateway(handler, authorizer, internal_requests, clock, timeouts, limits.connections)
    protocol_class = make_protocol_class(
        gateway, handler, settings.head, ingress.public_url, ingress.proxies, hosts
    )
    front = None
    if backend is not None and hub is not None and data_links is not None:
        repeats = RepeatedReads(hub, data_links, recorder, authorizer, clock, limits)
        splices = SplicedRequests(hub, data_links)
        passed_class = make_passed_class(hub, repeats, splices, protocol_class)
        front = NativeFront(backend, hub, data_links, repeats, splices, passed_class)
        gateway.native = front.open_requests
    local = LocalInspector(gateway, open_requests, sessions)
    relay = None
    if sharing is not None:
        question_server = QuestionServer(local, sharing.links.tasks)
        relay = Relay(sharing.router, limits.per_agent, question_server)

    return KubeProxy(
        gateway, tunnels, local, internal_requests, metrics, protocol_class, sharing, relay, front
    )


def _share_agents(
    replicas: ReplicaConfig,
    tunnels: TunnelServer,
    budget: ReceiveBudget,
    open_requests: OpenRequests,
    clock: Clock,
) -> ReplicaSharing:
    """Builds the parts that reach agents through other replicas."""
    links = ReplicaLinks(replicas.server, replicas.client, budget, clock)
    router = ReplicaRouter(tunnels, replicas.registry, links, replicas.me, clock)
    client = ReplicaClient(replicas.registry, links)
    return ReplicaSharing(router, links, client, SharedLimits(open_requests, client, clock))
