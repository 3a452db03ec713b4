"""Ports of agents."""

from typing import Protocol

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.replicas import Replica
from controlplane.platform.ports import Rows
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from core.spec.tunnels import Tunnel


class JobLogs(Protocol):
    """Recent log output of running jobs; best effort, for a limited number of jobs."""

    def append(self, job_id: str, offset: int, data: bytes) -> None:
        """Stores a piece of a log at its offset."""
        ...

    def read(self, job_id: str, offset: int) -> tuple[int, bytes]:
        """Returns the log from `offset` on, as far as it is kept, and
        the offset where it begins.
        """
        ...


class ProxySessions(Protocol):
    """The Kubernetes proxy: open streams and recordings of all replicas."""

    async def open_streams(self, wanted: StreamFilter) -> FoundStreams: ...

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        """Ends a stream; False: it had already ended. Raises Unavailable if its replica does not
        answer.
        """
        ...

    async def recording(self, request_id: str, offset: int, most: int) -> RecordingPart:
        """Returns a part of a recording.

        Raises NotFound, or Unavailable if a replica that may hold it does not answer.
        """
        ...


class ClusterJobStore(Rows[ClusterJob], Protocol):
    """Jobs that run in clusters."""


class ReplicaStore(Rows[Replica], Protocol):
    """Replicas of the control plane."""


class TunnelStore(Rows[Tunnel], Protocol):
    """The replica that holds each agent's link."""
