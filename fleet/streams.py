"""Open requests through the Kubernetes proxy, and session recordings."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleet.identity import ClusterId

MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class OpenStream:
    """An open request. `kind` is `upgrade`, `watch` or `plain`; bytes count bodies only.

    `replica` is the address of the replica that received it; empty means this one.
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
    """A filter of open requests: all fields that are not None must match.

    `clusters` allows requests to these clusters, and always those of the user id `owner`.
    """

    id: str | None = None
    handle: str | None = None
    user: str | None = None
    owner: str = ""
    clusters: tuple[ClusterId, ...] | None = None

    def chosen(self, streams: Iterable[OpenStream]) -> list[OpenStream]:
        """Returns the matching requests, longest open first, at most `MOST_LISTED`."""
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

    `silent` lists the addresses of replicas that did not answer; their requests are missing.
    """

    streams: list[OpenStream]
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """ASCII bytes of a recording; `next` is the offset of the next part, None at the end.

    `going_on`: the session is still open and may add data.
    """

    data: bytes
    next: int | None
    going_on: bool


EVERYTHING = StreamFilter()


def longest_open(streams: Iterable[OpenStream]) -> list[OpenStream]:
    """Sorts by age, longest open first, and returns at most `MOST_LISTED`."""
    return sorted(streams, key=lambda one: one.since)[:MOST_LISTED]
