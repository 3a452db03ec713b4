"""Looking at requests to clusters while they are under way, and at what was recorded of them."""

from dataclasses import replace

from controlplane.domain.access import Actor, Kind, Target, Verb, require, require_member
from controlplane.ports import Door, PageQuery
from controlplane.usecases.deps import Deps
from fleet.errors import NotFound, Unavailable
from fleet.identity import ClusterId
from fleet.streams import FoundStreams, OpenStream, RecordingPart, StreamFilter

PART_BYTES = 256 << 10
_MOST_CLUSTERS = 20_000
_GONE = "no such request is under way: it has ended, or you may not see it"


class Streams:
    """Verbs on open requests. Everybody sees and ends their own; who administers a cluster, all.

    `door` is set by who puts the process together; a process without one has no streams.
    """

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.door: Door | None = None

    async def page(
        self, actor: Actor, cluster: str | None = None, user: str | None = None
    ) -> FoundStreams:
        """Open requests of all replicas, longest open first.

        `cluster` is a handle, `user` the name of one.
        """
        return await self._find(actor, StreamFilter(handle=cluster, user=user))

    async def end(self, actor: Actor, id: str) -> OpenStream:
        """End an open request, which its user is told. NotFound: it is not there.

        Unavailable: it may be in a replica that does not answer.
        """
        found = await self._find(actor, StreamFilter(id=id))
        if not found.streams and found.silent:
            raise Unavailable(f"{_GONE}; no answer from {', '.join(found.silent)}")
        if not found.streams or self.door is None:
            raise NotFound(_GONE)
        stream = found.streams[0]
        async with self._deps.store.write() as tx:
            target = f"{stream.handle}: {stream.what}"
            await self._deps.audit(
                tx, actor, "endStream", target, stream.cluster_id, user=stream.user, stream=id
            )
        if not await self.door.end_stream(stream, actor.email or actor.name):
            raise NotFound(_GONE)
        return stream

    async def recording(self, actor: Actor, request_id: str, offset: int = 0) -> RecordingPart:
        """A part of what was recorded of a request; for who may read the audit trail."""
        require(actor, Verb.READ, Target.whole(Kind.AUDIT))
        if self.door is None:
            raise Unavailable("this process keeps no recordings")
        part = await self.door.recording(request_id, max(0, offset), PART_BYTES)
        if offset == 0:
            async with self._deps.store.write() as tx:
                await self._deps.audit(tx, actor, "readRecording", request_id, request_id)
        return part

    async def _find(self, actor: Actor, wanted: StreamFilter) -> FoundStreams:
        require_member(actor)
        if self.door is None:
            return FoundStreams([])
        clusters = await self._administered(actor)
        return await self.door.open_streams(replace(wanted, owner=actor.id, clusters=clusters))

    async def _administered(self, actor: Actor) -> tuple[ClusterId, ...] | None:
        """The clusters whose streams are shown besides one's own; None: all of them."""
        visible = actor.policy.visible(Kind.CLUSTER, Verb.ADMINISTER)
        if not visible:
            return None
        if not all(visible):
            return ()
        async with self._deps.store.read() as tx:
            page = await tx.clusters.page(PageQuery(_MOST_CLUSTERS, visible=visible))
        return tuple(cluster.id for cluster in page.items)
