"""Open requests to clusters, and recordings of terminal sessions."""

import strawberry

from controlplane.agents.operations.streams import OpenRequestOperations
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from core.open_streams import FoundStreams, RecordingPart
from core.open_streams import OpenStream as StreamRow


@output(StreamRow, rename={"cluster": "handle"}, hide={"cluster_id", "user_id"})
class OpenStreamType(Output[StreamRow]):
    """An open request to the Kubernetes API of a cluster."""

    bytes_in: float
    bytes_out: float


@output(FoundStreams, rename={"nodes": "streams"})
class OpenStreams(Output[FoundStreams]):
    """Open requests to clusters, longest open first. Limit: 1,000."""


@output(RecordingPart, hide={"cluster_id"})
class SessionRecording(Output[RecordingPart]):
    """A part of a recorded terminal session in the format asciicast v2."""

    data: str = computed(lambda part: part.data.decode("ascii"))


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
        streams = await info.context[OpenRequestOperations].page(info.context.actor, cluster, user)
        return OpenStreams.of(streams)

    @strawberry.field
    async def session_recording(
        self, info: Info, request_id: strawberry.ID, offset: int = 0
    ) -> SessionRecording:
        """Recording of a terminal session.

        Args:
            offset: Offset of the part: `next` of the previous one. Default: 0.
        """
        operations = info.context[OpenRequestOperations]
        return SessionRecording.of(
            await operations.recording(info.context.actor, request_id, offset)
        )


@strawberry.type
class StreamMutation:
    @strawberry.mutation
    async def end_stream(self, info: Info, id: strawberry.ID) -> OpenStreamType:
        """Ends an open request. The user sees who ended it.

        Args:
            id: ID of the request.
        """
        return OpenStreamType.of(
            await info.context[OpenRequestOperations].end(info.context.actor, id)
        )
