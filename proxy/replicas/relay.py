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


class HeldLinks(Protocol):
    """The agent links that this replica holds."""

    def held(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link that was claimed with this epoch, if it is still current."""
        ...


class SplicedStream:
    """Owner of one stream; passes its bytes to the stream of the other half.
    It returns credit only once the other side has room, so that flow control works end to end and
    at most one window waits here.
    """

    __slots__ = ("_owed", "other", "stream")

    def __init__(self) -> None:
        self._owed = 0
        self.stream: TunnelStream
        self.other: SplicedStream

    def on_data(self, data: Buffer) -> None:
        if self.other.stream.send(data):
            self.stream.consumed(len(data))
        else:
            self._owed += len(data)

    def on_end(self, close: bool) -> None:
        self.other.stream.send(b"", END | CLOSE if close else END)

    def on_writable(self) -> None:
        self.other.return_credit()

    def on_reset(self, code: int, text: str) -> None:
        self.other.stream.reset(code, text)

    def return_credit(self) -> None:
        """Returns credit after the other stream has room again."""
        owed, self._owed = self._owed, 0
        if owed:
            self.stream.consumed(owed)


class Relay:
    """Owner of the links that other replicas have opened to this one."""

    def __init__(self, held: HeldLinks, most: int, answers: QuestionServer) -> None:
        self._held, self._most, self._answers = held, most, answers

    def on_ready(self, hello: Hello) -> None:
        log.debug("a replica has connected")

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        if request.kind == KIND_REPLICA_REQUEST:
            self._answers.accept(stream)
            return
        passage = unwrap(request)
        stream.owner = near = SplicedStream()
        link = self._held.held(passage.cluster_id, passage.epoch)
        if link is None or not link.accepts_streams:
            stream.reset(NOT_HERE, "is not connected to this replica")
        elif link.crowded or len(link.streams) >= self._most:
            stream.reset(OVERLOADED, "has too many requests open")
        else:
            far = SplicedStream()
            near.stream, near.other, far.other = stream, far, near
            request = passage.request
            claimed, _ = split_proof(request.identity)
            if not link.features & FEATURE_PROOF:
                request.identity = claimed
            far.stream = link.open(far, request, tenant=claimed)

    def on_peer_draining(self, drain: Drain) -> None:
        """Does nothing: other replicas use new routes once agents have moved."""

    def on_closed(self, reason: str) -> None:
        log.info("a replica has disconnected", why=reason)
