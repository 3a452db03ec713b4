"""Ports of the Kubernetes proxy to the rest of the control plane."""

from collections.abc import Mapping, Sequence, Sized
from typing import Protocol

from core.identity import ClusterId, TokenId
from core.mux.codec import Buffer, Open
from core.mux.stream import StreamOwner
from core.open_streams import OpenStream, RecordingPart, RequestEnd, StreamFilter
from proxy.domain.access import AuthenticatedUser, Credential, LastContact, RequestGrant
from proxy.domain.attributes import RequestAttributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import Load
from proxy.domain.link_location import LinkLocation, PeerReplica
from proxy.domain.terminal import TerminalSession


class Authenticator(Protocol):
    """Authenticates users."""

    async def authenticate(self, credential: Credential, *, source: str) -> AuthenticatedUser:
        """Authenticates a token or a session; `source` is the peer's address.
        Unauthenticated: the credential is unknown, expired or revoked; the message is for the user.
        """
        ...


class Authorizer(Protocol):
    """Authorizes requests."""

    async def authorize(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        """Authorizes a request on a cluster and returns the grant.
        NotFound: the cluster does not exist, or the user may not see it. Forbidden: the message
        names the missing permission. The proxy calls this again for open requests, to end those
        whose permission was lost.
        """
        ...


class RequestAudit(Protocol):
    """Stores an audit record of each request."""

    async def opened(self, record: RequestRecord) -> None:
        """Records a write or an upgrade before it starts; returns when the row is committed.
        Unavailable: the row cannot be stored, so the proxy refuses the request.
        """
        ...

    def began(self, record: RequestRecord) -> None:
        """Records the start of a long-running read. Must not block."""
        ...

    def closed(self, record: RequestRecord) -> None:
        """Records the end of a request; `opened` has recorded writes and upgrades before. Must not
        block.
        """
        ...

    def repeated(self, record: RequestRecord, ends: Sequence[RequestEnd]) -> None:
        """Records the ends of equal authorized requests, as `closed` does one by one. Must not
        block.
        """
        ...


class TerminalRecording(Protocol):
    """Recording of one terminal session, from the bytes after the 101 of its upgrade.
    `from_user` and `from_cluster` raise `UnrecordableError` for bytes that violate the protocol.
    """

    def from_user(self, data: Buffer) -> None: ...

    def from_cluster(self, data: Buffer) -> None: ...

    def close(self) -> None:
        """Ends the recording. Must not block."""
        ...


class SessionRecorder(Protocol):
    """Records terminal sessions."""

    async def begin(self, record: RequestRecord, session: TerminalSession) -> TerminalRecording:
        """Starts the recording of a session that is about to begin.
        Unavailable: recording is impossible, so the proxy refuses the request.
        """
        ...


class AgentPresence(Protocol):
    """Last contact of agents that are not connected."""

    async def last_seen(self, cluster_id: ClusterId) -> LastContact | None:
        """Last contact of the cluster's agent; None: it never connected."""
        ...


class AgentAuthenticator(Protocol):
    """Authenticates agents."""

    async def __call__(self, token: str) -> tuple[ClusterId, TokenId]:
        """Returns the agent's cluster and the id of its token. Unauthenticated: not a valid agent
        token.
        """
        ...


class RequestStream(Protocol):
    """The stream of one request to an agent, as in `core.mux.stream.TunnelStream`."""

    sent_end: bool

    def send(self, data: Buffer, flags: int = 0) -> bool:
        """Sends bytes in order. False: send no more until the owner's `on_writable`."""
        ...

    def consumed(self, size: int) -> None:
        """Returns credit for received bytes that have been written out."""
        ...

    def reset(self, code: int = 0, text: str = "") -> None:
        """Resets both directions."""
        ...


class AgentRoute(Protocol):
    """Route to one agent: its link, as in `core.mux.mux.Mux`, or a replica that holds it."""

    @property
    def accepts_streams(self) -> bool:
        """Reports whether new requests may be sent."""
        ...

    @property
    def crowded(self) -> bool:
        """Reports whether the link is so congested that even small frames wait."""
        ...

    @property
    def features(self) -> int:
        """Feature bits of `core.mux.codec` that the agent may support."""
        ...

    @property
    def streams(self) -> Sized:
        """Requests to this agent that this replica counts."""
        ...

    def open(self, owner: StreamOwner, request: Open, *, tenant: bytes) -> RequestStream:
        """Sends a request; `owner` gets the response. `tenant`: the unit of fair queueing."""
        ...


class AgentRouter(Protocol):
    """Finds routes to the agents of clusters."""

    def find(self, cluster_id: ClusterId) -> AgentRoute | None:
        """Returns the known route to the cluster's agent, without asking other replicas."""
        ...

    async def reach(self, cluster_id: ClusterId) -> AgentRoute | None:
        """Returns the route to the cluster's agent after a lookup; None: it is not connected
        anywhere.
        """
        ...


class TunnelRegistry(Protocol):
    """Registry of the replicas that hold agent links. Each claim of a cluster gets a higher
    epoch.
    """

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """Claims a link that is ready here and returns its epoch. `instance` (hex): the agent's
        process.
        LimitExceeded: two agents with the same identity compete for the link. Unavailable: the
        registry cannot be reached.
        """
        ...

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """Releases a link that has ended; a newer claim stays. Unavailable: as above."""
        ...

    async def locate(self, cluster_id: ClusterId) -> LinkLocation | None:
        """Finds the replica that holds the link; None: no live replica. Unavailable: as above."""
        ...

    async def moved_links(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, LinkLocation]:
        """Returns the links among `held` that another replica has claimed since, with their new
        place.
        """
        ...

    async def other_replicas(self) -> Sequence[PeerReplica]:
        """Lists the other live replicas. Unavailable: as above."""
        ...


class RequestCounts(Protocol):
    """Counts of the open requests of this replica by user."""

    def loads(self) -> Mapping[str, Load]:
        """Counts of the users with many open requests here, by user name."""
        ...

    def set_remote_loads(self, loads: Mapping[str, Load]) -> None:
        """Sets the counts of other replicas, which the limits include from now on."""
        ...


class RequestInspector(Protocol):
    """The open requests of one replica, and the recordings it stores."""

    def open_streams(self, stream_filter: StreamFilter) -> list[OpenStream]:
        """Lists the open requests that match a filter, longest open first."""
        ...

    def end_stream(self, id: str, by: str) -> bool:
        """Ends a request; False: no request has this id."""
        ...

    def loads(self) -> Mapping[str, Load]:
        """Counts of the users with many open requests here, by user name."""
        ...

    async def recording(self, id: str, offset: int, max_bytes: int) -> RecordingPart:
        """Reads a part of a recording. NotFound: it is not stored here."""
        ...
