"""Open requests to clusters, and recordings of past ones."""

from dataclasses import replace

from controlplane.domain.access import Actor, Kind, Target, Verb, require, require_member
from controlplane.ports import Door, PageQuery
from controlplane.usecases.deps import Deps
from fleet.errors import NotFound, Unavailable
from fleet.identity import ClusterId
from fleet.streams import FoundStreams, OpenStream, RecordingPart, StreamFilter

PART_BYTES = 256 << 10
_MOST_CLUSTERS = 20_000
_GONE = "no open request has this id: it has ended, or you have no access to it"


class Streams:
    """Operations on open requests. Users see and end their own; cluster administrators, all.

    The process sets `door`; without one, there are no open requests.
    """

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.door: Door | None = None

    async def page(
        self, actor: Actor, cluster: str | None = None, user: str | None = None
    ) -> FoundStreams:
        """Open requests of all replicas, longest open first.

        `cluster` filters by handle, `user` by user name.
        """
        return await self._find(actor, StreamFilter(handle=cluster, user=user))

    async def end(self, actor: Actor, id: str) -> OpenStream:
        """Ends an open request and informs its user. NotFound: it is not open.

        Unavailable: it may be open on a replica that does not answer.
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
        """A part of a request's recording; needs read access to the audit log."""
        require(actor, Verb.READ, Target.whole(Kind.AUDIT))
        if self.door is None:
            raise Unavailable("this process stores no recordings")
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
        """The clusters whose requests the actor may see besides the actor's own; None: all
        clusters."""
        visible = actor.policy.visible(Kind.CLUSTER, Verb.ADMINISTER)
        if not visible:
            return None
        if not all(visible):
            return ()
        async with self._deps.store.read() as tx:
            page = await tx.clusters.page(PageQuery(_MOST_CLUSTERS, visible=visible))
        return tuple(cluster.id for cluster in page.items)
