"""Recordings as files, one for each session, named by the request's id in the audit log.
A background task writes them twice a second. Another deletes those beyond the total size or the
retention time.
"""

import asyncio
import json
import os
import re
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import structlog

from core.errors import NotFound, Unavailable
from core.identity import ClusterId
from core.open_streams import RecordingPart
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import RecordingLimits
from proxy.domain.terminal import TerminalSession
from proxy.recording.asciicast import AsciicastWriter
from proxy.recording.session import LiveRecording

log = structlog.get_logger(__name__)

WRITE_SECONDS = 0.5
PRUNE_SECONDS = 600.0
DAY = 86_400.0
_MAX_HEADER = 64 << 10
_ID = re.compile(r"[0-9a-f]{32}\Z")


class FileRecorder:
    """Implements the port `SessionRecorder` with files in a folder that only its owner may read."""

    def __init__(self, folder: Path, limits: RecordingLimits, clock: Clock) -> None:
        self._folder, self._limits, self._clock = folder, limits, clock
        self._open: dict[str, LiveRecording] = {}
        # One thread appends, so lines keep their order also if the task that waits is cancelled.
        self._writer = ThreadPoolExecutor(1, "recordings")
        self.tasks = Tasks("recordings")

    def start(self) -> None:
        """Starts the background tasks that write and delete recordings."""
        self.tasks.forever("write", self._write_regularly())
        self.tasks.forever("prune", self._prune_regularly())

    async def stop(self) -> None:
        """Stops the background tasks and writes the remaining lines."""
        await self.tasks.stop()
        await self._flush()
        await asyncio.to_thread(self._writer.shutdown)

    async def begin(self, record: RequestRecord, session: TerminalSession) -> LiveRecording:
        recording = LiveRecording(
            AsciicastWriter(self._clock, record, session, self._limits.session_bytes), session
        )
        try:
            await asyncio.to_thread(self._create, record.id)
        except OSError as error:
            log.error("cannot keep a recording", error=str(error))
            raise Unavailable(
                "the session must be recorded, but the recording cannot be created"
            ) from None
        self._open[record.id] = recording
        return recording

    async def read(self, id: str, offset: int, max_bytes: int) -> RecordingPart:
        """Reads a part of a recording. NotFound: no such recording exists, or it was deleted."""
        if not _ID.match(id):
            raise NotFound("no recording has this id")
        ongoing = id in self._open
        try:
            data, cluster_id = await asyncio.to_thread(_read, self._path(id), offset, max_bytes)
        except OSError:
            raise NotFound("no recording of this request exists, or it was deleted") from None
        next_offset = offset + len(data) if len(data) == max_bytes else None
        return RecordingPart(data, next_offset, ongoing, cluster_id)

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}.cast"

    def _create(self, id: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._path(id), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    async def _write_regularly(self) -> None:
        while True:
            await self._clock.sleep(WRITE_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        for id, recording in tuple(self._open.items()):
            is_over = recording.closed
            lines, recording.cast.pending = recording.cast.pending, []
            if lines and recording.failed is None:
                try:
                    await self._append(id, b"".join(lines))
                except OSError as error:
                    log.error("cannot keep a recording", request=id, error=str(error))
                    recording.failed = "the recording of this session cannot be written"
            if is_over:
                del self._open[id]

    async def _append(self, id: str, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._writer, _append, self._path(id), data))

    async def _prune_regularly(self) -> None:
        while True:
            await self._clock.sleep(PRUNE_SECONDS)
            await self.prune()

    async def prune(self) -> int:
        """Deletes expired recordings, and the oldest while the total size is too large; returns
        their number.
        """
        oldest = self._clock.now().timestamp() - self._limits.days * DAY
        open_ids = set(self._open)
        return await asyncio.to_thread(
            _delete_excess, self._folder, self._limits.total_bytes, oldest, open_ids
        )


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _read(path: Path, offset: int, max_bytes: int) -> tuple[bytes, ClusterId]:
    """Returns a part of a recording, and the ID of its cluster."""
    with path.open("rb") as file:
        cluster_id = _header_text(file, "cluster_id")
        file.seek(offset)
        return file.read(max_bytes), ClusterId(cluster_id)


def _delete_excess(folder: Path, max_bytes: int, oldest: float, open_ids: set[str]) -> int:
    """Deletes expired recordings, then the oldest of the user with the most bytes, so that nobody
    can displace the recordings of others.
    """
    recordings = []
    for path in folder.glob("*.cast"):
        status = path.stat()
        recordings.append((status.st_mtime, status.st_size, path))
    total, deleted = sum(size for _, size, _ in recordings), 0
    by_user: dict[str, deque[tuple[int, Path]]] = defaultdict(deque)
    for modified, size, path in sorted(recordings):
        if path.stem in open_ids:
            continue
        if modified < oldest:
            path.unlink(missing_ok=True)
            total, deleted = total - size, deleted + 1
        else:
            with path.open("rb") as file:
                by_user[_header_text(file, "user")].append((size, path))
    sizes = {user: sum(size for size, _ in files) for user, files in by_user.items()}
    while total > max_bytes and sizes:
        user = max(sizes, key=lambda name: sizes[name])
        size, path = by_user[user].popleft()
        path.unlink(missing_ok=True)
        total, deleted, sizes[user] = total - size, deleted + 1, sizes[user] - size
        if not by_user[user]:
            del sizes[user]
    return deleted


def _header_text(file: BinaryIO, name: str) -> str:
    """Returns a text in the first line of a recording; empty if it has none."""
    try:
        return str(json.loads(file.readline(_MAX_HEADER))["towline"][name])
    except (ValueError, KeyError, TypeError):
        return ""
