"""Open requests to clusters, and recordings of terminal sessions."""

from datetime import datetime

import strawberry

from controlplane.graphql.context import Info
from core.open_streams import OpenStream as StreamRow


@strawberry.type
class OpenStreamType:
    """An open request to the Kubernetes API of a cluster."""

    id: strawberry.ID
    """ID of the request."""
    since: datetime
    """Start of the request."""
    cluster: str
    """Handle of the cluster."""
    user: str
    """E-mail address of the user."""
    acting_as: str
    """User that the request impersonates. Empty without impersonation."""
    what: str
    """Kubernetes verb and resource."""
    kind: str
    """Kind of request: `upgrade` (such as exec), `watch` or `plain`."""
    source: str
    """IP address of the client."""
    user_agent: str
    """User agent of the client."""
    bytes_in: float
    """Bytes sent by the client."""
    bytes_out: float
    """Bytes sent to the client."""
    recorded: bool
    """True if the terminal session is recorded."""
    replica: str
    """Address of the replica that serves the request. Empty for the replica that answers."""

    @classmethod
    def of(cls, row: StreamRow) -> "OpenStreamType":
        return cls(
            id=strawberry.ID(row.id),
            since=row.since,
            cluster=row.handle,
            user=row.user,
            acting_as=row.acting_as,
            what=row.what,
            kind=row.kind,
            source=row.source,
            user_agent=row.user_agent,
            bytes_in=float(row.bytes_in),
            bytes_out=float(row.bytes_out),
            recorded=row.recorded,
            replica=row.replica,
        )


@strawberry.type
class OpenStreams:
    """Open requests to clusters, longest open first. Limit: 1,000."""

    nodes: list[OpenStreamType]
    """Open requests."""
    silent: list[str]
    """Addresses of replicas that did not answer; their requests are missing."""


@strawberry.type
class SessionRecording:
    """A part of a recorded terminal session in the format asciicast v2."""

    data: str
    """Lines of the recording."""
    next: int | None
    """Offset of the next part. Null at the end."""
    ongoing: bool
    """True while the session is active and more parts may follow."""


@strawberry.type
class StreamQuery:
    @strawberry.field
    async def open_streams(
        self, info: Info, cluster: str | None = None, user: str | None = None
    ) -> OpenStreams:
        """Open requests of the caller. Administrators of a cluster see all requests to it.

        Args:
            cluster: Only requests to the cluster with this handle.
            user: Only requests of the user with this e-mail address.
        """
        found = await info.context.verbs.streams.page(info.context.actor, cluster, user)
        return OpenStreams(
            nodes=[OpenStreamType.of(row) for row in found.streams], silent=list(found.silent)
        )

    @strawberry.field
    async def session_recording(
        self, info: Info, request_id: strawberry.ID, offset: int = 0
    ) -> SessionRecording:
        """Recording of a terminal session.

        Args:
            request_id: ID of the request.
            offset: Offset of the part: `next` of the previous one. Default: 0.
        """
        verbs = info.context.verbs
        part = await verbs.streams.recording(info.context.actor, request_id, offset)
        return SessionRecording(
            data=part.data.decode("ascii"), next=part.next, ongoing=part.ongoing
        )


@strawberry.type
class StreamMutation:
    @strawberry.mutation
    async def end_stream(self, info: Info, id: strawberry.ID) -> OpenStreamType:
        """Ends an open request. The user sees who ended it.

        Args:
            id: ID of the request.
        """
        return OpenStreamType.of(await info.context.verbs.streams.end(info.context.actor, id))
