"""Requests through the Kubernetes proxy, open and ended, and session recordings."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from core.identity import ClusterId

MAX_LISTED_STREAMS = 1_000

RequestEnd = tuple[str, float, int]
"""End of one of many equal requests: the values in which their audit records differ.

Request ID of 32 hexadecimal digits, duration in seconds, and bytes of the response.
"""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """An open request; bytes count bodies only."""

    id: str
    """ID of the request."""
    since: datetime
    """Start of the request."""
    cluster_id: ClusterId
    handle: str
    """Handle of the cluster."""
    user_id: str
    user: str
    """E-mail address of the user."""
    acting_as: str
    """User that the request impersonates. Empty without impersonation."""
    what: str
    """Kubernetes verb and resource."""
    kind: str
    """Kind of request: `upgrade` (such as exec), `watch` or `plain`."""
    source: str
    """IP address of the client."""
    user_agent: str
    """User agent of the client."""
    bytes_in: int
    """Bytes sent by the client."""
    bytes_out: int
    """Bytes sent to the client."""
    recorded: bool
    """True if the terminal session is recorded."""
    replica: str = ""
    """Address of the replica that serves the request. Empty for the replica that answers."""


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """A filter of open requests: all fields that are not None must match.

    `clusters` allows requests to these clusters, and always those of the user id `owner`.
    """

    id: str | None = None
    handle: str | None = None
    user: str | None = None
    owner: str = ""
    clusters: tuple[ClusterId, ...] | None = None

    def select(self, streams: Iterable[OpenStream]) -> list[OpenStream]:
        """Returns the matching requests, longest open first, at most `MAX_LISTED_STREAMS`."""
        clusters = frozenset(self.clusters or ())

        def matches(stream: OpenStream) -> bool:
            is_visible = self.clusters is None or stream.user_id == self.owner
            return (
                self.id in (None, stream.id)
                and self.handle in (None, stream.handle)
                and self.user in (None, stream.user)
                and (is_visible or stream.cluster_id in clusters)
            )

        return sort_longest_open(stream for stream in streams if matches(stream))


@dataclass(frozen=True, slots=True)
class FoundStreams:
    """Open requests of all replicas, longest open first."""

    streams: list[OpenStream]
    """Open requests."""
    silent: tuple[str, ...] = ()
    """Addresses of replicas that did not answer; their requests are missing."""


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """A part of a recording."""

    data: bytes
    """Lines of the recording, in ASCII."""
    next: int | None
    """Offset of the next part. None at the end."""
    ongoing: bool
    """True while the session is active and more parts may follow."""
    cluster_id: ClusterId = ClusterId("")
    """Cluster of the session. Empty if the recording does not tell it."""


ALL_STREAMS = StreamFilter()


def sort_longest_open(streams: Iterable[OpenStream]) -> list[OpenStream]:
    """Sorts by age, longest open first, and returns at most `MAX_LISTED_STREAMS`."""
    return sorted(streams, key=lambda stream: stream.since)[:MAX_LISTED_STREAMS]
