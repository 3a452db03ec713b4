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

    __slots__ = ("_cluster_id", "_find_again", "_mux", "_tasks", "location")

    def __init__(
        self,
        mux: Mux,
        cluster_id: ClusterId,
        location: LinkLocation,
        find_again: FindAgain | None,
        tasks: Tasks,
    ) -> None:
        self._mux, self._cluster_id, self.location = mux, cluster_id, location
        self._find_again, self._tasks = find_again, tasks

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
        wrapped = wrap(self._cluster_id, self.location.epoch, request)
        forwarded = ForwardedStream(owner, request, tenant, self._retry)
        forwarded.stream = self._mux.open(forwarded, wrapped, tenant=tenant)
        return forwarded

    def without_retry(self) -> "RemoteAgentRoute":
        """Returns the same route without a retry."""
        return RemoteAgentRoute(self._mux, self._cluster_id, self.location, None, self._tasks)

    def _retry(self, forwarded: "ForwardedStream") -> bool:
        """Starts a lookup of another route; False: no retry remains."""
        if self._find_again is None:
            return False
        lookup = self._find_again(self._cluster_id, self.location)
        self._tasks.spawn("retry", forwarded.resend(lookup))
        return True


class ForwardedStream:
    """Owner of the stream between replicas, and the channel of the requester.
    It keeps all sent bytes, at most one window of credit, until the holder responds. If the agent
    has moved meanwhile, nothing has reached it, so the request is sent again, once.
    """

    __slots__ = (
        "_is_reset",
        "_owner",
        "_request",
        "_retry",
        "_sent",
        "_tenant",
        "sent_end",
        "stream",
    )

    def __init__(
        self,
        owner: StreamOwner,
        request: Open,
        tenant: bytes,
        retry: Callable[["ForwardedStream"], bool],
    ) -> None:
        self.sent_end = self._is_reset = False
        self.stream: TunnelStream | RequestStream | None = None
        self._owner, self._request, self._tenant = owner, request, tenant
        self._retry: Callable[[ForwardedStream], bool] | None = retry
        self._sent: list[tuple[Buffer, int]] = []

    # Calls of the owner (see `proxy.ports.Channel`)

    def send(self, data: Buffer, flags: int = 0) -> bool:
        self.sent_end = bool(flags)
        if self._retry is not None:
            self._sent.append((data, flags))
        return self.stream is not None and self.stream.send(data, flags)

    def consumed(self, size: int) -> None:
        if self.stream is not None:
            self.stream.consumed(size)

    def reset(self, code: int = 0, text: str = "") -> None:
        self._is_reset, self._retry = True, None
        self._sent.clear()
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.reset(code, text)

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        self._on_first_response()
        self._owner.on_data(data)

    def on_end(self, close: bool) -> None:
        self._on_first_response()
        self._owner.on_end(close)

    def on_writable(self) -> None:
        self._on_first_response()
        self._owner.on_writable()

    def on_reset(self, code: int, text: str) -> None:
        retry, self._retry = self._retry, None
        self.stream = None
        if code == NOT_HERE and retry is not None and retry(self):
            return
        self._sent.clear()
        if code == NOT_HERE:
            code, text = UNAVAILABLE, MOVING_TEXT
        self._owner.on_reset(code, text)

    async def resend(self, lookup: Awaitable[AgentRoute | None]) -> None:
        """Sends the whole request over another route, or fails."""
        route = await lookup
        sent, self._sent = self._sent, []
        if self._is_reset:
            return
        if route is None or not route.accepts_streams:
            self._owner.on_reset(UNAVAILABLE, MOVING_TEXT)
            return
        self.stream = route.open(self._owner, self._request, tenant=self._tenant)
        is_writable = True
        for data, flags in sent:
            is_writable = self.stream.send(data, flags)
        if is_writable and not self.sent_end:
            self._owner.on_writable()

    def _on_first_response(self) -> None:
        if self._retry is not None:
            self._retry = None
            self._sent.clear()
            if isinstance(self.stream, TunnelStream):
                self.stream.owner = self._owner
