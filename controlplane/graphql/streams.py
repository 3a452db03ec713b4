"""Open requests to clusters, and recordings of terminal sessions."""

from datetime import datetime

import strawberry

from controlplane.graphql.context import Info
from fleet.streams import OpenStream as StreamRow


@strawberry.type(description="A request to a cluster that is under way.")
class OpenStream:
    id: strawberry.ID
    since: datetime
    cluster: str
    user: str
    acting_as: str
    what: str
    kind: str
    source: str
    user_agent: str
    bytes_in: float
    bytes_out: float
    recorded: bool
    replica: str = strawberry.field(
        description="The replica that it came in at; empty: the one that answers."
    )

    @classmethod
    def of(cls, row: StreamRow) -> "OpenStream":
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


@strawberry.type(
    description="Open requests, longest open first, of all replicas but `silent` ones: those that "
    "have not answered, by their addresses."
)
class OpenStreams:
    nodes: list[OpenStream]
    silent: list[str]


@strawberry.type(
    description="A part of a recorded terminal session, as lines of asciicast v2. `next` is the "
    "offset of the following part; while the session goes on, more may come."
)
class SessionRecording:
    data: str
    next: int | None
    going_on: bool


@strawberry.type
class StreamQuery:
    @strawberry.field(description="Requests that are under way: one's own, and all into a "
                                  "cluster for who administers it.")  # fmt: skip
    async def open_streams(
        self, info: Info, cluster: str | None = None, user: str | None = None
    ) -> OpenStreams:
        found = await info.context.verbs.streams.page(info.context.actor, cluster, user)
        return OpenStreams(
            nodes=[OpenStream.of(row) for row in found.streams], silent=list(found.silent)
        )

    @strawberry.field(description="What was recorded of a request, by its `requestId`.")
    async def session_recording(
        self, info: Info, request_id: strawberry.ID, offset: int = 0
    ) -> SessionRecording:
        verbs = info.context.verbs
        part = await verbs.streams.recording(info.context.actor, request_id, offset)
        return SessionRecording(
            data=part.data.decode("ascii"), next=part.next, going_on=part.going_on
        )


@strawberry.type
class StreamMutation:
    @strawberry.mutation(description="End an open request; its user is told by whom.")
    async def end_stream(self, info: Info, id: strawberry.ID) -> OpenStream:
        return OpenStream.of(await info.context.verbs.streams.end(info.context.actor, id))
