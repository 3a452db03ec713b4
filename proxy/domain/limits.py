"""Bounds of the door. Bytes, counts and seconds."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """The head of a request."""

    size: int = 64 << 10
    fields: int = 128
    field: int = 16 << 10
    target: int = 16 << 10


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Requests open at the same time, and `connections` of users, idle ones too."""

    connections: int = 40_000
    per_user: int = 2_000
    per_user_and_cluster: int = 500
    per_agent: int = 5_000
    per_process: int = 20_000
    upgrades_per_user: int = 16


@dataclass(frozen=True, slots=True)
class Load:
    """What one user has open, in all and by cluster's handle."""

    total: int
    clusters: dict[str, int]

    def plus(self, other: "Load") -> "Load":
        """Both together."""
        clusters = Counter(self.clusters) + Counter(other.clusters)
        return Load(self.total + other.total, dict(clusters))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `answer`: until the head of an answer, unless the request is long-running; counted
    from the last bytes of the request, so that an upload takes the time that it needs.

    `stalled`: how long a user may leave data unread. `grace`: how long open requests may go on
    after a drain was asked for. `recheck`: how often open requests are authorized anew.
    `life`: how long any request may be open.
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
    """Recordings of terminal sessions: bytes of one, of all together, and how many days."""

    session_bytes: int = 16 << 20
    total_bytes: int = 2 << 30
    days: int = 90
