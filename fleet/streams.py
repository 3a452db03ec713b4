"""Requests to clusters that are under way, as people look at them, and recordings of sessions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleet.identity import ClusterId

MOST_LISTED = 1_000


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

    def chosen(self, streams: Iterable[OpenStream]) -> list[OpenStream]:
        """Those that fit, longest open first, `MOST_LISTED` at most."""
        clusters = frozenset(self.clusters or ())

        def fits(one: OpenStream) -> bool:
            open_to = self.clusters is None or one.user_id == self.owner
            return (
                self.id in (None, one.id)
                and self.handle in (None, one.handle)
                and self.user in (None, one.user)
                and (open_to or one.cluster_id in clusters)
            )

        return longest_open(stream for stream in streams if fits(stream))


@dataclass(frozen=True, slots=True)
class FoundStreams:
    """Open requests of all replicas, longest open first.

    `silent`: addresses of the replicas that have not answered; what they know is missing.
    """

    streams: list[OpenStream]
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """Bytes of a recording, which are ASCII; `next` is where the following part begins, None at
    its end. `going_on`: the session has not ended, more may come behind the end.
    """

    data: bytes
    next: int | None
    going_on: bool


EVERYTHING = StreamFilter()


def longest_open(streams: Iterable[OpenStream]) -> list[OpenStream]:
    """In the order in which they are shown, `MOST_LISTED` at most."""
    return sorted(streams, key=lambda one: one.since)[:MOST_LISTED]
