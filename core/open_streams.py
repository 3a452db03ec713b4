"""Open requests through the Kubernetes proxy, and session recordings."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from core.identity import ClusterId

MAX_LISTED_STREAMS = 1_000


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
        """Returns the matching requests, longest open first, at most `MAX_LISTED_STREAMS`."""
        clusters = frozenset(self.clusters or ())

        def fits(stream: OpenStream) -> bool:
            open_to = self.clusters is None or stream.user_id == self.owner
            return (
                self.id in (None, stream.id)
                and self.handle in (None, stream.handle)
                and self.user in (None, stream.user)
                and (open_to or stream.cluster_id in clusters)
            )

        return sort_longest_open(stream for stream in streams if fits(stream))


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

    `ongoing`: the session is still open and may add data.
    """

    data: bytes
    next: int | None
    ongoing: bool


ALL_STREAMS = StreamFilter()


def sort_longest_open(streams: Iterable[OpenStream]) -> list[OpenStream]:
    """Sorts by age, longest open first, and returns at most `MAX_LISTED_STREAMS`."""
    return sorted(streams, key=lambda stream: stream.since)[:MAX_LISTED_STREAMS]
