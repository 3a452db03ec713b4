"""Limits of the Kubernetes proxy, in bytes, counts and seconds."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Limits of a request head. A token with many groups may need most of `size` for one field."""

    size: int = 64 << 10
    fields: int = 128
    field: int = 64 << 10
    target: int = 64 << 10


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of requests open at the same time. `connections`: user connections, including idle
    ones. `per_connection`: requests of one HTTP/2 connection, as many as the API server permits.
    """

    connections: int = 40_000
    per_connection: int = 250
    per_user: int = 2_000
    per_user_and_cluster: int = 500
    per_agent: int = 5_000
    per_process: int = 20_000
    upgrades_per_user: int = 16


@dataclass(frozen=True, slots=True)
class Load:
    """Open requests of one user: in total, and by handle of the cluster."""

    total: int
    clusters: dict[str, int]

    def plus(self, other: "Load") -> "Load":
        """Adds the counts of another load."""
        clusters = Counter(self.clusters) + Counter(other.clusters)
        return Load(self.total + other.total, dict(clusters))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds.
    `answer`: wait for the head of a response, except of a long-running request; it starts with the
    last bytes of the request, so that an upload takes the time it needs. `stalled`: how long a user
    may leave data unread. `grace`: how long open requests may continue during a drain. `recheck`:
    interval between authorizations of open requests. `life`: maximum age of any request.
    """

    head: float = 10.0
    idle: float = 120.0
    answer: float = 75.0
    stalled: float = 600.0
    grace: float = 60.0
    identity_cache: float = 30.0
    verdict_cache: float = 5.0
    recheck: float = 30.0
    life: float = 86_400.0


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """Limits of recordings of terminal sessions: bytes of one, bytes of all, and retention
    in days.
    """

    session_bytes: int = 16 << 20
    total_bytes: int = 2 << 30
    days: int = 90
