"""Ports of agents."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.replicas import Replica
from controlplane.platform.ports import Rows
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from core.spec.jobs import JobPhase
from core.spec.tunnels import Tunnel


class ProxySessions(Protocol):
    """The Kubernetes proxy: open streams and recordings of all replicas."""

    async def open_streams(self, stream_filter: StreamFilter) -> FoundStreams: ...

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """Ends a stream; False: it had already ended. Raises Unavailable if its replica does not
        answer.
        """
        ...

    async def recording(self, request_id: str, offset: int, max_bytes: int) -> RecordingPart:
        """Returns a part of a recording.

        Raises NotFound, or Unavailable if a replica that may hold it does not answer.
        """
        ...


class ClusterJobStore(Rows[ClusterJob], Protocol):
    """Jobs that run in clusters."""

    async def in_cluster(self, id: str, cluster_id: str) -> ClusterJob | None:
        return await self.find(id=id, cluster_id=cluster_id)

    async def by_keys(self, keys: Collection[str]) -> list[ClusterJob]:
        return await self.select(key=keys)

    async def by_key(self, key: str) -> ClusterJob | None:
        return await self.find(key=key)

    async def fail(self, id: str, message: str, at: datetime) -> None:
        await self.change(id, phase=JobPhase.FAILED, message=message, finished_at=at)


class ReplicaStore(Rows[Replica], Protocol):
    """Replicas of the control plane."""

    async def beat(self, id: str, address: str, at: datetime) -> bool:
        return await self.change(id, address=address, heartbeat=at)


class TunnelStore(Rows[Tunnel], Protocol):
    """The replica that holds each agent's link."""

    async def of_replica(self, replica_id: str) -> list[Tunnel]:
        return await self.select(replica_id=replica_id)

    async def release(self, id: str) -> None:
        await self.change(id, replica_id=None)
