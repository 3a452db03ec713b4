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

log = structlog.get_logger(__name__)


class ReportedDigests:
    """The digests in use, as reported by control planes in other processes."""

    def __init__(self) -> None:
        self._reported: frozenset[str] | None = None

    def tell(self, digests: Collection[str]) -> None:
        """Replaces the set."""
        self._reported = frozenset(digests)

    async def live(self) -> Collection[str] | None:
        """Implements `LiveDigests.live`."""
        return self._reported


@dataclass(frozen=True, slots=True)
class _StoredFile:
    path: Path
    written: float
    size: int


class Eviction:
    """Removes unused files after `keep`, or earlier, oldest first, while the disk is too full.

    `watermark` is a share of the disk, 0 to 1. Keeps all bundles while the digests in use are
    unknown.
    """

    def __init__(
        self,
        bundles: Path,
        memos: Path,
        live: LiveDigests,
        clock: Clock,
        *,
        keep: timedelta,
        watermark: float,
        usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        self._bundles = bundles
        self._memos = memos
        self._live = live
        self._clock = clock
        self._keep = keep
        self._watermark = watermark
        self._usage = usage

    async def run(self) -> None:
        """Runs one round; files that cannot be removed stay for the next one."""
        live = await self._live.live()
        removed, freed = await asyncio.to_thread(self._run, live)
        if removed:
            log.info("evicted from the content store", files=removed, bytes=freed)

    def _run(self, live: Collection[str] | None) -> tuple[int, int]:
        before = (self._clock.now() - self._keep).timestamp()
        gone = [file for file in _files(self._memos) if file.written < before and _remove(file)]
        if live is not None:
            kept = {digest.removeprefix("sha256:") for digest in live}
            spare = [file for file in _files(self._bundles) if _name(file.path) not in kept]
            gone += self._evict(sorted(spare, key=lambda file: file.written), before)
        return len(gone), sum(file.size for file in gone)

    def _evict(self, spare: list[_StoredFile], before: float) -> Iterator[_StoredFile]:
        too_much = self._too_much()
        for file in spare:
            if (file.written < before or too_much > 0) and _remove(file):
                too_much -= file.size
                yield file

    def _too_much(self) -> int:
        """Returns the bytes above the watermark."""
        if not self._bundles.exists():
            return 0
        total, used, _ = self._usage(self._bundles)
        return used - int(total * self._watermark)


def _files(root: Path) -> Iterator[_StoredFile]:
    for path in root.glob("??/*"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            yield _StoredFile(path, stat.st_mtime, stat.st_size)


def _name(path: Path) -> str:
    return path.parent.name + path.name


def _remove(file: _StoredFile) -> bool:
    try:
        file.path.unlink()
    except OSError:
        return False
    return True
