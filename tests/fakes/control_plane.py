"""A control plane for tests: built on its store, with fakes of what is outside, not started."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from controlplane.compose import ControlPlane, OutsidePorts, build
from controlplane.foundation import lay_foundation
from controlplane.settings import ControlPlaneSettings
from core.errors import Unavailable
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from core.runtime.clock import Clock


@asynccontextmanager
async def built(
    settings: ControlPlaneSettings, ports: OutsidePorts, clock: Clock
) -> AsyncGenerator[ControlPlane]:
    """A control plane of a test, closed with the block."""
    foundation = await lay_foundation(settings, clock)
    try:
        plane = await build(foundation, ports)
        try:
            yield plane
        finally:
            await plane.close()
    finally:
        await foundation.close()


class FakeProxySessions:
    """A Kubernetes proxy with these open streams, and without recordings."""

    def __init__(self) -> None:
        self.streams: list[OpenStream] = []

    async def open_streams(self, stream_filter: StreamFilter) -> FoundStreams:
        return FoundStreams(stream_filter.select(self.streams))

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        return stream in self.streams and bool(by)

    async def recording(self, request_id: str, offset: int, max_bytes: int) -> RecordingPart:
        raise Unavailable("no request was recorded")
