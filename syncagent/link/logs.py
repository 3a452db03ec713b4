"""Queue of log pieces: sent when the link has room, dropped otherwise."""

import asyncio
from collections import deque

from core.wire.v1 import agent_pb2 as pb

_MAX_BYTES = 256 << 10


class LogQueue:
    """Implements `ports.LiveLog`; one link takes from it. Dropped pieces appear as a gap."""

    def __init__(self) -> None:
        self._waiting: deque[pb.JobLog] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()

    def put(self, command_id: str, offset: int, data: bytes) -> None:
        """Adds a piece and drops the oldest ones if the queue is full."""
        self._waiting.append(pb.JobLog(command_id=command_id, offset=offset, data=data))
        self._bytes += len(data)
        while self._bytes > _MAX_BYTES:
            self._bytes -= len(self._waiting.popleft().data)
        self._filled.set()

    async def take(self) -> pb.JobLog:
        """Returns the oldest piece as soon as there is one."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        piece = self._waiting.popleft()
        self._bytes -= len(piece.data)
        return piece
