"""The holder of an agent's link: splices streams of other replicas to streams on that link."""

from typing import Protocol

import structlog

from core.identity import ClusterId
from core.mux.codec import (
    CLOSE,
    END,
    FEATURE_PROOF,
    KIND_REPLICA_REQUEST,
    NOT_HERE,
    Buffer,
    Drain,
    Hello,
    Open,
    split_proof,
)
from core.mux.mux import Mux
from core.mux.stream import TunnelStream
from proxy.replicas.forward_header import unwrap
from proxy.replicas.server import QuestionServer

log = structlog.get_logger(__name__)

OVERLOADED = 429


class LinksByEpoch(Protocol):
    """The agent links that this replica holds."""

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link that was claimed with this epoch, if it is still current."""
        ...


class SplicedStream:
    """Owner of one stream; passes its bytes to the stream of the other half.
    It returns credit only once the other side has room, so that flow control works end to end and
    at most one window waits here.
    """

    __slots__ = ("_unacknowledged", "other", "stream")

    def __init__(self) -> None:
        self._unacknowledged = 0
        self.stream: TunnelStream
        self.other: SplicedStream

    def on_data(self, data: Buffer) -> None:
        if self.other.stream.send(data):
            self.stream.consumed(len(data))
        else:
            self._unacknowledged += len(data)

    def on_end(self, close: bool) -> None:
        self.other.stream.send(b"", END | CLOSE if close else END)

    def on_writable(self) -> None:
        self.other.return_credit()

    def on_reset(self, code: int, text: str) -> None:
        self.other.stream.reset(code, text)

    def return_credit(self) -> None:
        """Returns credit after the other stream has room again."""
        unacknowledged, self._unacknowledged = self._unacknowledged, 0
        if unacknowledged:
            self.stream.consumed(unacknowledged)


class Relay:
    """Owner of the links that other replicas have opened to this one."""

    def __init__(self, links: LinksByEpoch, max_streams: int, answers: QuestionServer) -> None:
        self._links, self._max_streams, self._answers = links, max_streams, answers

    def on_ready(self, hello: Hello) -> None:
        log.debug("a replica has connected")

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        if request.kind == KIND_REPLICA_REQUEST:
            self._answers.accept(stream)
            return
        wrapped = unwrap(request)
        stream.owner = from_replica = SplicedStream()
        link = self._links.find_epoch(wrapped.cluster_id, wrapped.epoch)
        if link is None or not link.accepts_streams:
            stream.reset(NOT_HERE, "is not connected to this replica")
        elif link.crowded or len(link.streams) >= self._max_streams:
            stream.reset(OVERLOADED, "has too many requests open")
        else:
            to_agent = SplicedStream()
            from_replica.stream, from_replica.other, to_agent.other = stream, to_agent, from_replica
            request = wrapped.request
            claimed, _ = split_proof(request.identity)
            if not link.features & FEATURE_PROOF:
                request.identity = claimed
            to_agent.stream = link.open(to_agent, request, tenant=claimed)

    def on_peer_draining(self, drain: Drain) -> None:
        """Does nothing: other replicas use new routes once agents have moved."""

    def on_closed(self, reason: str) -> None:
        log.info("a replica has disconnected", why=reason)
