"""Open requests to clusters, and recordings of past ones."""

from dataclasses import replace

from controlplane.agents.ports import ProxySessions
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import OperationContext
from core.errors import NotFound, Unavailable
from core.identity import ClusterId
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from core.runtime.lru_cache import LRUCache

PART_BYTES = 256 << 10
_SAME_READ_SECONDS = 600.0
_MAX_REMEMBERED_READS = 1_000
_NOT_OPEN = "no open request has this id: it has ended, or you have no access to it"


class OpenRequestOperations:
    """Operations on open requests. Users see and end their own; cluster administrators, all.

    Without `sessions`, the process serves no requests and stores no recordings.
    """

    def __init__(self, context: OperationContext, sessions: ProxySessions | None = None) -> None:
        self._context = context
        self._sessions = sessions
        self._last_reads: LRUCache[tuple[str, str], float] = LRUCache(_MAX_REMEMBERED_READS)

    async def page(
        self, actor: Actor, cluster: str | None = None, user: str | None = None
    ) -> FoundStreams:
        """Open requests of all replicas, longest open first.

        `cluster` filters by handle, `user` by user name.
        """
        return await self._find_open(actor, StreamFilter(handle=cluster, user=user))

    async def end(self, actor: Actor, id: str) -> OpenStream:
        """Ends an open request and informs its user. NotFound: it is not open.

        Unavailable: it may be open on a replica that does not answer.
        """
        open_streams = await self._find_open(actor, StreamFilter(id=id))
        if not open_streams.streams and open_streams.silent:
            raise Unavailable(f"{_NOT_OPEN}; no answer from {', '.join(open_streams.silent)}")
        if not open_streams.streams or self._sessions is None:
            raise NotFound(_NOT_OPEN)
        stream = open_streams.streams[0]
        async with self._context.change(actor, "endStream") as tx:
            target = f"{stream.handle}: {stream.what}"
            tx.audit(target, stream.cluster_id, user=stream.user, stream=id)
        if not await self._sessions.end_stream(stream, actor.shown_name):
            raise NotFound(_NOT_OPEN)
        return stream

    async def recording(self, actor: Actor, request_id: str, offset: int = 0) -> RecordingPart:
        """A part of a request's recording; needs read access to the audit log.

        Audits the first part that the caller reads, at whatever offset.
        """
        require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))
        if self._sessions is None:
            raise Unavailable("this process stores no recordings")
        start = max(0, offset)
        part = await self._sessions.recording(request_id, start, PART_BYTES)
        if start == 0 or not self._has_read_recently(actor, request_id):
            async with self._context.change(actor, "readRecording") as tx:
                tx.audit(request_id, part.cluster_id)
        self._last_reads.put((actor.id, request_id), self._context.clock.monotonic())
        return part

    def _has_read_recently(self, actor: Actor, request_id: str) -> bool:
        """True if the caller has just read another part of the recording, which was audited."""
        last = self._last_reads.get((actor.id, request_id))
        return last is not None and self._context.clock.monotonic() - last < _SAME_READ_SECONDS

    async def _find_open(self, actor: Actor, stream_filter: StreamFilter) -> FoundStreams:
        require_member(actor)
        if self._sessions is None:
            return FoundStreams([])
        clusters = await self._administered_clusters(actor)
        return await self._sessions.open_streams(
            replace(stream_filter, owner=actor.id, clusters=clusters)
        )

    async def _administered_clusters(self, actor: Actor) -> tuple[ClusterId, ...] | None:
        """Clusters of which the actor may see all requests, not only their own; None: all
        clusters."""
        visible = actor.policy.visible(ResourceKind.CLUSTER, Verb.ADMINISTER)
        if not visible:
            return None
        if not all(visible):
            return ()
        async with self._context.store.read() as tx:
            clusters = await tx[ClusterStore].all()
        return tuple(c.id for c in clusters if actor.may(Verb.ADMINISTER, c.target))
