"""What the door asks of the rest of the installation."""

from collections.abc import Mapping, Sequence, Sized
from datetime import datetime
from typing import Protocol

from fleet.identity import ClusterId, TokenId
from fleet.mux.codec import Buffer, Open
from fleet.mux.stream import StreamOwner
from fleet.streams import OpenStream, RecordingPart, StreamFilter
from proxy.domain.access import Credential, Grant, Identity
from proxy.domain.attributes import RequestAttributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import Load
from proxy.domain.places import Neighbour, Place
from proxy.domain.terminal import TerminalSession


class Authenticator(Protocol):
    """Who carries this credential?"""

    async def authenticate(self, credential: Credential, *, source: str) -> Identity:
        """The user behind a token or a session; `source` is the peer's address.

        Unauthenticated: unknown, expired or revoked, with the sentence to show.
        """
        ...


class Authorizer(Protocol):
    """May they do this?"""

    async def authorize(
        self, identity: Identity, handle: str, attributes: RequestAttributes
    ) -> Grant:
        """The grant for a request on a cluster.

        NotFound: no such cluster, or none that they may see. Forbidden: the message names the
        missing right. Also called anew for open requests, so that a lost right ends them.
        """
        ...


class AuditLog(Protocol):
    """Keeps a row for each request."""

    async def opened(self, record: RequestRecord) -> None:
        """A write or an upgrade is about to start: returns when the row is committed.

        Unavailable: the row cannot be kept, so the request is refused.
        """
        ...

    def began(self, record: RequestRecord) -> None:
        """A read that may go on for ever has begun. Must not block."""
        ...

    def closed(self, record: RequestRecord) -> None:
        """A request has ended; writes and upgrades were `opened` before. Must not block."""
        ...


class Tape(Protocol):
    """What one terminal session says is kept. Bytes are those behind the 101 of its upgrade.

    Both raise `UnrecordableError` when the bytes are none that a terminal session has.
    """

    def from_user(self, data: Buffer) -> None: ...

    def from_cluster(self, data: Buffer) -> None: ...

    def close(self) -> None:
        """The session has ended. Must not block."""
        ...


class Recorder(Protocol):
    """Keeps terminal sessions."""

    async def begin(self, record: RequestRecord, session: TerminalSession) -> Tape:
        """A tape for a session that is about to start.

        Unavailable: it cannot be kept, so the request is refused.
        """
        ...


class AgentPresence(Protocol):
    """What is known of agents that are not connected."""

    async def last_seen(self, cluster_id: ClusterId) -> datetime | None:
        """When the cluster's agent was last heard of; None: never."""
        ...


class AgentAuthenticator(Protocol):
    """Which cluster does this agent token belong to?"""

    async def __call__(self, token: str) -> tuple[ClusterId, TokenId]:
        """The cluster, and the token's own id. Unauthenticated: no valid agent token."""
        ...


class Channel(Protocol):
    """One request on its way to an agent, as `fleet.mux.stream.Stream` is."""

    sent_end: bool

    def send(self, data: Buffer, flags: int = 0) -> bool:
        """Send bytes in order. False: no more until the owner's `on_writable`."""
        ...

    def consumed(self, size: int) -> None:
        """So many received bytes are written out."""
        ...

    def reset(self, code: int = 0, text: str = "") -> None:
        """End both directions now."""
        ...


class Way(Protocol):
    """Leads to one agent: its link, as `fleet.mux.mux.Mux` is, or another replica that holds it."""

    @property
    def open_for_new(self) -> bool:
        """Requests may be sent."""
        ...

    @property
    def crowded(self) -> bool:
        """Even small frames wait."""
        ...

    @property
    def features(self) -> int:
        """Feature bits of `fleet.mux.codec` that the agent may have."""
        ...

    @property
    def streams(self) -> Sized:
        """Requests to this agent that are counted here."""
        ...

    def open(self, owner: StreamOwner, request: Open, *, tenant: bytes) -> Channel:
        """Send a request; its answer goes to `owner`. `tenant`: who shares turns fairly."""
        ...


class Tunnels(Protocol):
    """Which way leads to a cluster?"""

    def find(self, cluster_id: ClusterId) -> Way | None:
        """The way to the cluster's agent, as far as it is known without asking."""
        ...

    async def reach(self, cluster_id: ClusterId) -> Way | None:
        """The same, after asking whoever may hold it; None: it is not connected anywhere."""
        ...


class TunnelRegistry(Protocol):
    """Who holds which agent's link. Each claim of a cluster gets a higher epoch than the last."""

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """A link is ready here: its epoch. `instance` (hex) names the agent's process.

        LimitExceeded: two agents take it from each other. Unavailable: nothing can be claimed now.
        """
        ...

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """A link has ended; a newer claim stays. Unavailable: as above."""
        ...

    async def locate(self, cluster_id: ClusterId) -> Place | None:
        """Who holds the link; None: nobody that lives. Unavailable: as above."""
        ...

    async def lost(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, Place]:
        """Of links held here with these epochs, those that were claimed since, and where."""
        ...

    async def neighbours(self) -> Sequence[Neighbour]:
        """The other replicas that live. Unavailable: as above."""
        ...


class Counts(Protocol):
    """The open requests of this replica, counted by user."""

    def loads(self) -> Mapping[str, Load]:
        """What users have open here, by name, of those who have much."""
        ...

    def count_elsewhere(self, loads: Mapping[str, Load]) -> None:
        """What users have open in other replicas, from now on."""
        ...


class Insight(Protocol):
    """What one replica knows of its requests, and the recordings that it keeps."""

    def open_streams(self, wanted: StreamFilter) -> list[OpenStream]:
        """Those under way that are wanted, longest open first."""
        ...

    def end_stream(self, id: str, by: str) -> bool:
        """End one; False: there is none of this id."""
        ...

    def loads(self) -> Mapping[str, Load]:
        """What users have open here, by name, of those who have much."""
        ...

    async def recording(self, id: str, offset: int, most: int) -> RecordingPart:
        """A part of a recording. NotFound: it is not kept here."""
        ...
