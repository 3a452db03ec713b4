"""Requests that a replica knows, answered from memory."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.errors import NotFound
from core.identity import ClusterId
from core.open_streams import OpenStream, RecordingPart, StreamFilter
from proxy.domain.limits import Load

BEGAN = datetime(2026, 5, 4, 9, tzinfo=UTC)


def a_stream(id: str, *, user: str = "ann", cluster: str = "c1", minute: int = 0) -> OpenStream:
    """An open watch."""
    return OpenStream(
        id=id,
        since=BEGAN + timedelta(minutes=minute),
        cluster_id=ClusterId(cluster),
        handle=f"handle-{cluster}",
        user_id=f"id-{user}",
        user=user,
        acting_as=user,
        what="watch pods",
        kind="watch",
        source="10.0.0.1:1",
        user_agent="kubectl",
        bytes_in=0,
        bytes_out=7,
        recorded=False,
    )


@dataclass
class FakeInsight:
    """Fills `RequestInspector`. `ended`: (id, by) of the requests that were ended."""

    streams: list[OpenStream] = field(default_factory=list)
    recordings: dict[str, bytes] = field(default_factory=dict)
    ended: list[tuple[str, str]] = field(default_factory=list)
    busy: dict[str, Load] = field(default_factory=dict)

    def loads(self) -> dict[str, Load]:
        return self.busy

    def open_streams(self, stream_filter: StreamFilter) -> list[OpenStream]:
        return stream_filter.select(self.streams)

    def end_stream(self, id: str, by: str) -> bool:
        known = any(one.id == id for one in self.streams)
        if known:
            self.ended.append((id, by))
        return known

    async def recording(self, id: str, offset: int, max_bytes: int) -> RecordingPart:
        if id not in self.recordings:
            raise NotFound("not kept here")
        data = self.recordings[id][offset : offset + max_bytes]
        return RecordingPart(data, offset + max_bytes if len(data) == max_bytes else None, False)
