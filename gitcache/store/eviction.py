"""Evicts unused bundles and old memos from the disk."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from core.runtime.clock import Clock
from gitcache.ports import LiveDigests
from gitcache.store.files import FileContent, FileMemo

log = structlog.get_logger(__name__)


class ReportedDigests:
    """The digests in use, as reported by control planes in other processes."""

    def __init__(self) -> None:
        self._reported: frozenset[str] | None = None

    def set_digests(self, digests: Collection[str]) -> None:
        """Replaces the set."""
        self._reported = frozenset(digests)

    async def live_digests(self) -> Collection[str] | None:
        """Implements `LiveDigests.live_digests`."""
        return self._reported


@dataclass(frozen=True, slots=True)
class _StoredFile:
    path: Path
    used_at: float
    size: int

    @property
    def name(self) -> str:
        """Hex digits of the digest, of which the first two are the folder."""
        return self.path.parent.name + self.path.name


class Eviction:
    """Removes unused files after `keep`, or earlier, oldest first, while the disk is too full.

    Live bundles and everything in memory are in use; so are charts, which no report of live digests
    names. `watermark` is a share of the disk, 0 to 1. Keeps all bundles while the digests in use
    are unknown.
    """

    def __init__(
        self,
        content: FileContent,
        memo: FileMemo,
        live: LiveDigests,
        clock: Clock,
        *,
        keep: timedelta,
        watermark: float,
        usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        self._content = content
        self._memo = memo
        self._live = live
        self._clock = clock
        self._keep = keep
        self._watermark = watermark
        self._usage = usage

    async def run(self) -> None:
        """Runs one round; files that cannot be removed stay for the next one."""
        live, memos = await self._live.live_digests(), _hex_names(self._memo.in_memory())
        bundles = None if live is None else _hex_names((*live, *self._content.in_memory()))
        removed, freed = await asyncio.to_thread(self._evict_unused, bundles, memos)
        if removed:
            log.info("evicted from the content store", files=removed, bytes=freed)

    def _evict_unused(
        self, used_bundles: Collection[str] | None, used_memos: Collection[str]
    ) -> tuple[int, int]:
        expired_before = (self._clock.now() - self._keep).timestamp()
        removed = [
            file
            for file in _stored_files(self._memo.root)
            if file.used_at < expired_before and file.name not in used_memos and _try_remove(file)
        ]
        if used_bundles is not None:
            bundles = _stored_files(self._content.root)
            spare = [file for file in bundles if file.name not in used_bundles]
            removed += self._remove_spare(
                sorted(spare, key=lambda file: file.used_at), expired_before
            )
        return len(removed), sum(file.size for file in removed)

    def _remove_spare(
        self, spare: list[_StoredFile], expired_before: float
    ) -> Iterator[_StoredFile]:
        excess = self._bytes_above_watermark()
        for file in spare:
            if (file.used_at < expired_before or excess > 0) and _try_remove(file):
                excess -= file.size
                yield file

    def _bytes_above_watermark(self) -> int:
        """Returns the bytes above the watermark; blocks that only root may use do not count."""
        if not self._content.root.exists():
            return 0
        _, used, free = self._usage(self._content.root)
        return used - int((used + free) * self._watermark)


def _stored_files(root: Path) -> Iterator[_StoredFile]:
    for path in root.glob("??/*"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            yield _StoredFile(path, stat.st_mtime, stat.st_size)


def _hex_names(digests: Collection[str]) -> set[str]:
    return {digest.removeprefix("sha256:") for digest in digests}


def _try_remove(file: _StoredFile) -> bool:
    try:
        file.path.unlink()
    except OSError:
        return False
    return True
