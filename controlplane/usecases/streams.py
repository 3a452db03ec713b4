"""Looking at requests to clusters while they are under way, and at what was recorded of them."""

from collections.abc import Collection

from controlplane.domain.access import Actor, Kind, Target, Verb, require, require_member
from controlplane.domain.clusters import Cluster
from controlplane.domain.streams import OpenStream, RecordingPart
from controlplane.ports import Door
from controlplane.usecases.deps import Deps
from fleet.errors import NotFound, Unavailable

MOST_STREAMS = 1_000
PART_BYTES = 256 << 10
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
    ) -> list[OpenStream]:
        """Open requests, longest open first, `MOST_STREAMS` at most.

        `cluster` is a handle, `user` the name of one.
        """
        require_member(actor)
        found = [
            one
            for one in (self.door.open_streams() if self.door else [])
            if cluster in (None, one.handle) and user in (None, one.user)
        ]
        clusters = await self._clusters({one.cluster_id for one in found})
        visible = [one for one in found if _may_see(actor, one, clusters.get(one.cluster_id))]
        return sorted(visible, key=lambda one: one.since)[:MOST_STREAMS]

    async def end(self, actor: Actor, id: str) -> OpenStream:
        """End an open request, which its user is told. NotFound: it is not there."""
        require_member(actor)
        found = [one for one in (self.door.open_streams() if self.door else []) if one.id == id]
        clusters = await self._clusters({one.cluster_id for one in found})
        visible = [one for one in found if _may_see(actor, one, clusters.get(one.cluster_id))]
        if not visible or self.door is None:
            raise NotFound(_GONE)
        stream = visible[0]
        async with self._deps.store.write() as tx:
            target = f"{stream.handle}: {stream.what}"
            await self._deps.audit(
                tx, actor, "endStream", target, stream.cluster_id, user=stream.user, stream=id
            )
        if not self.door.end_stream(id, actor.email or actor.name):
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

    async def _clusters(self, ids: Collection[str]) -> dict[str, Cluster]:
        if not ids:
            return {}
        async with self._deps.store.read() as tx:
            return {one.id: one for one in await tx.clusters.select(id=list(ids))}


def _may_see(actor: Actor, stream: OpenStream, cluster: Cluster | None) -> bool:
    if stream.user_id == actor.id:
        return True
    return cluster is not None and actor.may(Verb.ADMINISTER, cluster.target)
