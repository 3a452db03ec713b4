"""Composition of the Kubernetes proxy."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import NotFound
from core.identity import ClusterId
from core.mux.budget import ReceiveBudget
from core.mux.mux import MuxSettings
from core.open_streams import (
    ALL_STREAMS,
    FoundStreams,
    OpenStream,
    RecordingPart,
    StreamFilter,
    sort_longest_open,
)
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.access import AuthenticatedUser
from proxy.domain.limits import Load
from proxy.gateway.authorization import RequestAuthorizer
from proxy.gateway.connection import make_protocol_class
from proxy.gateway.gateway import Gateway
from proxy.gateway.metrics import ProxyMetrics
from proxy.gateway.open_requests import OpenRequests
from proxy.gateway.route import ClusterRoute
from proxy.ports import (
    AgentAuthenticator,
    AgentPresence,
    AgentRoute,
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
from proxy.tunnel.server import TunnelServer


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
class ReplicaSharing:
    """The parts that share agent connections with other replicas.
    `per_agent`: maximum number of requests of this replica that are open on one agent.
    """

    router: ReplicaRouter
    peers: ReplicaLinks
    replica_client: ReplicaClient
    limits: SharedLimits
    per_agent: int


@dataclass(frozen=True, slots=True)
class LocalInspector:
    """Implements the port `RequestInspector` for this process."""

    gateway: Gateway
    recorder: FileRecorder | None

    def open_streams(self, wanted: StreamFilter) -> list[OpenStream]:
        return self.gateway.open_streams(wanted)

    def loads(self) -> Mapping[str, Load]:
        return self.gateway.authorization.requests.loads()

    def end_stream(self, id: str, by: str) -> bool:
        return self.gateway.end_stream(id, by)

    async def recording(self, id: str, offset: int, most: int) -> RecordingPart:
        if self.recorder is None:
            raise NotFound("nothing is recorded here")
        return await self.recorder.read(id, offset, most)


@dataclass(frozen=True, slots=True)
class KubeProxy:
    """The assembled Kubernetes proxy.
    Pass `protocol_class` to `uvicorn.Config(http=...)` and `tunnels.serve` to the server for
    agents. Call `start` inside the event loop that runs both.
    """

    gateway: Gateway
    tunnels: TunnelServer
    recorder: FileRecorder | None
    protocol_class: type[asyncio.Protocol]
    sharing: ReplicaSharing | None = None

    def start(self) -> None:
        """Starts the background tasks."""
        self.gateway.start()
        self.tunnels.start()
        if self.recorder is not None:
            self.recorder.start()

    def revoke(
        self,
        *,
        user: str | None = None,
        token: str | None = None,
        session: str | None = None,
        cluster: ClusterId | None = None,
        grant: str | None = None,
    ) -> int:
        """Ends every open request that matches one of these values, and returns their number."""
        return self.gateway.revoke(
            user=user, token=token, session=session, cluster=cluster, grant=grant
        )

    async def recheck(self, user: str | None = None) -> None:
        """Authorizes open requests again, now: those of one user, or all."""
        await self.gateway.recheck(user)

    @property
    def here(self) -> LocalInspector:
        """The requests and recordings of this replica."""
        return LocalInspector(self.gateway, self.recorder)

    async def open_streams(self, wanted: StreamFilter = ALL_STREAMS) -> FoundStreams:
        """Lists the open requests of this replica and of the others."""
        here = self.here.open_streams(wanted)
        if self.sharing is None:
            return FoundStreams(here)
        there = await self.sharing.replica_client.streams(wanted)
        return FoundStreams(sort_longest_open([*here, *there.streams]), there.silent)

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """Ends an open request in the replica that serves it; False if it has already ended.
        Unavailable: that replica does not answer.
        """
        if not stream.replica or self.sharing is None:
            return self.here.end_stream(stream.id, by)
        return await self.sharing.replica_client.end(stream.replica, stream.id, by)

    async def read(
        self, identity: AuthenticatedUser, source: str, route: ClusterRoute, most: int
    ) -> tuple[int, bytes]:
        """Sends a GET as an authenticated user and returns status and body; see
        `InternalReader.read`.
        """
        return await self.gateway.inside.read(identity, source, route, most)

    def is_connected(self, cluster_id: ClusterId) -> bool:
        """Reports whether requests can reach the cluster now."""
        return self.tunnels.is_connected(cluster_id)

    @property
    def find(self) -> Callable[[ClusterId], AgentRoute | None]:
        """Finds the route to a cluster from what this replica already knows, without asking
        others.
        """
        return self.sharing.router.find if self.sharing is not None else self.tunnels.find

    async def listen_for_replicas(self, host: str, port: int) -> int:
        """Listens for links from other replicas and returns the bound port. OSError: the port is in
        use.
        """
        if self.sharing is None:
            raise ValueError("cannot listen for replicas: pass `neighbours` to `build`")
        sharing = self.sharing
        answers = QuestionServer(self.here, sharing.peers.tasks)
        relay = Relay(sharing.router, sharing.per_agent, answers)
        bound = await sharing.peers.listen(host, port, relay)
        sharing.router.start()
        sharing.limits.start()
        return bound

    async def on_link_moved(self, cluster_id: ClusterId, replica_id: str) -> None:
        """Handles the event that a replica claimed or released an agent's link. Unavailable: see
        `ReplicaRouter.check_claims`.
        """
        if self.sharing is not None:
            await self.sharing.router.on_link_moved(cluster_id, replica_id)

    async def check_moved_links(self) -> None:
        """Checks all links, because any of them may have been claimed. Unavailable: see
        `ReplicaRouter.check_claims`.
        """
        if self.sharing is not None:
            await self.sharing.router.check_claims()

    def disconnect(self, token_id: str) -> None:
        """Closes the links of the agent that authenticated with this token, which was revoked."""
        self.tunnels.revoke(token_id)

    async def recording(self, request_id: str, offset: int, most: int) -> RecordingPart:
        """Reads a part of the recording of a request from the replica that stores it.
        NotFound: there is no recording. Unavailable: a replica that may store it does not answer.
        """
        try:
            return await self.here.recording(request_id, offset, most)
        except NotFound:
            if self.sharing is None:
                raise
        return await self.sharing.replica_client.recording(request_id, offset, most)

    @property
    def meters(self) -> ProxyMetrics:
        """The Prometheus collector to register."""
        return self.gateway.authorization.meters

    @property
    def tasks(self) -> tuple[Tasks, ...]:
        """The background tasks that must run until `stop`."""
        more = (self.recorder.tasks,) if self.recorder is not None else ()
        if self.sharing is not None:
            sharing = self.sharing
            more = (*more, sharing.peers.tasks, sharing.router.tasks, sharing.limits.tasks)
        return self.gateway.tasks, self.tunnels.tasks, *more

    async def drain(self) -> None:
        """Moves agents to other replicas and waits for open requests, at most for the grace
        period.
        """
        self.tunnels.drain(self.gateway.timeouts.grace, "the control plane is restarting")
        await self.gateway.drain()

    async def stop(self) -> None:
        """Stops all parts."""
        if self.sharing is not None:
            await self.sharing.limits.tasks.stop()
            await self.sharing.router.stop()
            await self.sharing.peers.stop()
        self.tunnels.stop()
        await self.tunnels.tasks.stop()
        await self.gateway.stop()
        if self.recorder is not None:
            await self.recorder.stop()


def build(
    settings: ProxySettings,
    clock: Clock,
    authenticator: Authenticator,
    authorizer: Authorizer,
    audit: RequestAudit,
    presence: AgentPresence,
    authenticate_agent: AgentAuthenticator,
    *,
    recordings: Path | None = None,
    neighbours: ReplicaConfig | None = None,
) -> KubeProxy:
    """Builds a Kubernetes proxy over these ports.
    `recordings`: folder for recordings of terminal sessions; without it, sessions that must be
    recorded are refused. `neighbours`: the replicas that share agents with this one.
    """
    recorder = FileRecorder(recordings, settings.recordings, clock) if recordings else None
    budget = ReceiveBudget(settings.memory)
    claims = neighbours.registry if neighbours is not None else None
    tunnels = TunnelServer(authenticate_agent, clock, budget, MuxSettings(), claims)
    requests = OpenRequests(settings.streams)
    sharing = None
    if neighbours is not None:
        sharing = _sharing(neighbours, tunnels, budget, settings, clock, requests)
    authorization = RequestAuthorizer(
        authenticator,
        authorizer,
        audit,
        presence,
        sharing.router if sharing is not None else tunnels,
        clock,
        settings.streams,
        settings.timeouts,
        requests=requests,
        recorder=recorder,
        passthrough=settings.passthrough,
    )
    gateway = Gateway(authorization, clock, settings.head, settings.timeouts, settings.streams)
    return KubeProxy(gateway, tunnels, recorder, make_protocol_class(gateway), sharing)


def _sharing(
    neighbours: ReplicaConfig,
    tunnels: TunnelServer,
    budget: ReceiveBudget,
    settings: ProxySettings,
    clock: Clock,
    requests: OpenRequests,
) -> ReplicaSharing:
    peers = ReplicaLinks(neighbours.server, neighbours.client, budget, clock)
    router = ReplicaRouter(tunnels, neighbours.registry, peers, neighbours.me, clock)
    replica_client = ReplicaClient(neighbours.registry, peers)
    limits = SharedLimits(requests, replica_client, clock)
    return ReplicaSharing(router, peers, replica_client, limits, settings.streams.per_agent)
