"""The assembled Kubernetes proxy."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from core.errors import NotFound
from core.identity import ClusterId
from core.open_streams import (
    ALL_STREAMS,
    FoundStreams,
    OpenStream,
    RecordingPart,
    StreamFilter,
    sort_longest_open,
)
from core.runtime.tasks import Tasks
from proxy.domain.limits import Load
from proxy.fast_path.front import NativeFront
from proxy.gateway.gateway import Gateway
from proxy.gateway.internal_requests import InternalClient
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.ports import AgentRoute
from proxy.recording.files import FileRecorder
from proxy.replicas.client import ReplicaClient
from proxy.replicas.links import ReplicaLinks
from proxy.replicas.relay import Relay
from proxy.replicas.router import ReplicaRouter
from proxy.replicas.shared_limits import SharedLimits
from proxy.tunnel.server import TunnelServer


@dataclass(frozen=True, slots=True)
class ReplicaSharing:
    """The parts that share agent connections with other replicas."""

    router: ReplicaRouter
    links: ReplicaLinks
    client: ReplicaClient
    limits: SharedLimits


@dataclass(frozen=True, slots=True)
class LocalInspector:
    """Implements the port `RequestInspector` for this process.
    `sessions`: None if nothing is recorded.
    """

    gateway: Gateway
    requests: OpenRequests
    sessions: FileRecorder | None

    def open_streams(self, stream_filter: StreamFilter) -> list[OpenStream]:
        return self.gateway.open_streams(stream_filter)

    def loads(self) -> Mapping[str, Load]:
        return self.requests.loads()

    def end_stream(self, id: str, by: str) -> bool:
        return self.gateway.end_stream(id, by)

    async def recording(self, id: str, offset: int, max_bytes: int) -> RecordingPart:
        if self.sessions is None:
            raise NotFound("nothing is recorded here")
        return await self.sessions.read(id, offset, max_bytes)


@dataclass(frozen=True, slots=True)
class KubeProxy:
    """The assembled Kubernetes proxy.
    Pass `protocol_class` to `uvicorn.Config(http=...)` and `tunnels.serve` to the server for
    agents. Call `start` inside the event loop that runs both. `local`: the requests and recordings
    of this replica. `internal_requests` sends requests of this process as a user. `meters`: the
    Prometheus collector to register. `relay` serves the requests and
    queries of other replicas. `front` listens for users in the place of uvicorn; None: uvicorn
    listens.
    """

    gateway: Gateway
    tunnels: TunnelServer
    local: LocalInspector
    internal_requests: InternalClient
    meters: ProxyMetrics
    protocol_class: type[asyncio.Protocol]
    sharing: ReplicaSharing | None = None
    relay: Relay | None = None
    front: NativeFront | None = None

    def start(self) -> None:
        """Starts the background tasks."""
        self.gateway.start()
        self.tunnels.start()
        if self.front is not None:
            self.front.start()
        if self.local.sessions is not None:
            self.local.sessions.start()

    async def open_streams(self, stream_filter: StreamFilter = ALL_STREAMS) -> FoundStreams:
        """Lists the open requests of this replica and of the others."""
        local = self.local.open_streams(stream_filter)
        if self.sharing is None:
            return FoundStreams(local)
        remote = await self.sharing.client.streams(stream_filter)
        return FoundStreams(sort_longest_open([*local, *remote.streams]), remote.silent)

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """Ends an open request in the replica that serves it; False if it has already ended.
        Unavailable: that replica does not answer.
        """
        if not stream.replica or self.sharing is None:
            return self.local.end_stream(stream.id, by)
        return await self.sharing.client.end(stream.replica, stream.id, by)

    @property
    def find_route(self) -> Callable[[ClusterId], AgentRoute | None]:
        """Finds the route to a cluster that this replica knows, without asking others."""
        return self.sharing.router.find if self.sharing is not None else self.tunnels.find

    async def listen_for_replicas(self, host: str, port: int) -> int:
        """Listens for links from other replicas and returns the bound port. OSError: the port is in
        use.
        """
        sharing, relay = self.sharing, self.relay
        if sharing is None or relay is None:
            raise ValueError("cannot listen for replicas: pass `replicas` to `build`")
        bound = await sharing.links.listen(host, port, relay)
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

    async def recording(self, request_id: str, offset: int, max_bytes: int) -> RecordingPart:
        """Reads a part of the recording of a request from the replica that stores it.
        NotFound: there is no recording. Unavailable: a replica that may store it does not answer.
        """
        try:
            return await self.local.recording(request_id, offset, max_bytes)
        except NotFound:
            if self.sharing is None:
                raise
        return await self.sharing.client.recording(request_id, offset, max_bytes)

    @property
    def tasks(self) -> tuple[Tasks, ...]:
        """The background tasks that must run until `stop`."""
        others = (self.local.sessions.tasks,) if self.local.sessions is not None else ()
        if self.front is not None:
            others = (*others, self.front.repeats.tasks, self.front.links.tasks)
        if self.sharing is not None:
            sharing = self.sharing
            others = (*others, sharing.links.tasks, sharing.router.tasks, sharing.limits.tasks)
        return self.gateway.tasks, self.tunnels.tasks, *others

    async def drain(self) -> None:
        """Moves agents to other replicas and waits for open requests, at most for the grace
        period.
        """
        if self.front is not None:
            self.front.drain()
        self.tunnels.drain(self.gateway.timeouts.grace, "the control plane is restarting")
        await self.gateway.drain()

    async def stop(self) -> None:
        """Stops all parts."""
        if self.sharing is not None:
            await self.sharing.limits.tasks.stop()
            await self.sharing.router.stop()
            await self.sharing.links.stop()
        if self.front is not None:
            await self.front.stop()
        self.tunnels.stop()
        await self.tunnels.tasks.stop()
        await self.gateway.stop()
        if self.local.sessions is not None:
            await self.local.sessions.stop()
