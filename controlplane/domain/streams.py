"""Requests to clusters that are under way, and recordings of terminal sessions."""

from dataclasses import dataclass
from datetime import datetime

from fleet.identity import ClusterId


@dataclass(frozen=True, slots=True)
class OpenStream:
    """One request that is under way. `kind`: `upgrade`, `watch` or `plain`; bytes of bodies.

    `replica`: where it came in, by its address; empty: here.
    """

    id: str
    since: datetime
    cluster_id: ClusterId
    handle: str
    user_id: str
    user: str
    acting_as: str
    what: str
    kind: str
    source: str
    user_agent: str
    bytes_in: int
    bytes_out: int
    recorded: bool
    replica: str = ""


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Which open requests are meant: those that fit each field that is not None.

    `clusters`: those into one of these, besides those of `owner`, who is the id of a user.
    """

    id: str | None = None
    handle: str | None = None
    user: str | None = None
    owner: str = ""
    clusters: tuple[ClusterId, ...] | None = None


@dataclass(frozen=True, slots=True)
class FoundStreams:
    """Open requests of all replicas, longest open first.

    `silent`: addresses of the replicas that have not answered; what they know is missing.
    """

    streams: list[OpenStream]
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """ASCII text of a recording; `next` is where the following part begins, None at its end.

    `going_on`: the session has not ended, more may come behind the end.
    """

    data: bytes
    next: int | None
    going_on: bool
