"""Forwarding of a request to its agent through another replica."""

from collections.abc import Awaitable, Callable, Sized

from core.identity import ClusterId
from core.mux.codec import FEATURE_PROOF, FEATURE_TCP, NOT_HERE, Buffer, Open
from core.mux.mux import Mux
from core.mux.stream import StreamOwner, TunnelStream
from core.runtime.tasks import Tasks
from proxy.domain.link_location import LinkLocation
from proxy.ports import AgentRoute, RequestStream
from proxy.replicas.forward_header import wrap

UNAVAILABLE = 503
MOVING_TEXT = "is between two connections; try again"

FindAgain = Callable[[ClusterId, LinkLocation], Awaitable[AgentRoute | None]]


class RemoteAgentRoute:
    """Route to an agent whose link another replica holds; implements `AgentRoute`.
    The replica that holds the link enforces the limit of its streams.
    """

    __slots__ = ("_again", "_cluster_id", "_mux", "_tasks", "place")

    def __init__(
        self,
        mux: Mux,
        cluster_id: ClusterId,
        place: LinkLocation,
        again: FindAgain | None,
        tasks: Tasks,
    ) -> None:
        self._mux, self._cluster_id, self.place = mux, cluster_id, place
        self._again, self._tasks = again, tasks

    @property
    def accepts_streams(self) -> bool:
        return self._mux.accepts_streams

    @property
    def crowded(self) -> bool:
        return self._mux.crowded

    @property
    def features(self) -> int:
        return FEATURE_TCP | FEATURE_PROOF

    @property
    def streams(self) -> Sized:
        return ()

    def open(self, owner: StreamOwner, request: Open, *, tenant: bytes) -> RequestStream:
        passage = wrap(self._cluster_id, self.place.epoch, request)
        crossing = ForwardedStream(owner, request, tenant, self._resolve)
        crossing.stream = self._mux.open(crossing, passage, tenant=tenant)
        return crossing

    def without_retry(self) -> "RemoteAgentRoute":
        """Returns the same route without a retry."""
        return RemoteAgentRoute(self._mux, self._cluster_id, self.place, None, self._tasks)

    def _resolve(self, crossing: "ForwardedStream") -> bool:
        """Starts to look for another route; False: no retry is left."""
        if self._again is None:
            return False
        again = self._again(self._cluster_id, self.place)
        self._tasks.spawn("once more", crossing.resend(again))
        return True


class ForwardedStream:
    """Owner of the stream between replicas, and the channel of the requester.
    It keeps all sent bytes, at most one window of credit, until the holder responds. If the agent
    has moved meanwhile, nothing has reached it, so the request is sent again, once.
    """

    __slots__ = (
        "_gone",
        "_kept",
        "_owner",
        "_request",
        "_resolve",
        "_tenant",
        "sent_end",
        "stream",
    )

    def __init__(
        self,
        owner: StreamOwner,
        request: Open,
        tenant: bytes,
        resolve: Callable[["ForwardedStream"], bool],
    ) -> None:
        self.sent_end = self._gone = False
        self.stream: TunnelStream | RequestStream | None = None
        self._owner, self._request, self._tenant = owner, request, tenant
        self._resolve: Callable[[ForwardedStream], bool] | None = resolve
        self._kept: list[tuple[Buffer, int]] = []

    # Calls of the owner (see `proxy.ports.Channel`)

    def send(self, data: Buffer, flags: int = 0) -> bool:
        self.sent_end = bool(flags)
        if self._resolve is not None:
            self._kept.append((data, flags))
        return self.stream is not None and self.stream.send(data, flags)

    def consumed(self, size: int) -> None:
        if self.stream is not None:
            self.stream.consumed(size)

    def reset(self, code: int = 0, text: str = "") -> None:
        self._gone, self._resolve = True, None
        self._kept.clear()
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.reset(code, text)

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        self._arrived()
        self._owner.on_data(data)

    def on_end(self, close: bool) -> None:
        self._arrived()
        self._owner.on_end(close)

    def on_writable(self) -> None:
        self._arrived()
        self._owner.on_writable()

    def on_reset(self, code: int, text: str) -> None:
        resolve, self._resolve = self._resolve, None
        self.stream = None
        if code == NOT_HERE and resolve is not None and resolve(self):
            return
        self._kept.clear()
        if code == NOT_HERE:
            code, text = UNAVAILABLE, MOVING_TEXT
        self._owner.on_reset(code, text)

    async def resend(self, again: Awaitable[AgentRoute | None]) -> None:
        """Sends the whole request over another route, or fails."""
        way = await again
        kept, self._kept = self._kept, []
        if self._gone:
            return
        if way is None or not way.accepts_streams:
            self._owner.on_reset(UNAVAILABLE, MOVING_TEXT)
            return
        self.stream = way.open(self._owner, self._request, tenant=self._tenant)
        room = True
        for data, flags in kept:
            room = self.stream.send(data, flags)
        if room and not self.sent_end:
            self._owner.on_writable()

    def _arrived(self) -> None:
        if self._resolve is not None:
            self._resolve = None
            self._kept.clear()
            if isinstance(self.stream, TunnelStream):
                self.stream.owner = self._owner
