"""Eviction from the disk, and bundles that always stay."""

import os
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import pytest

from core.spec.bundle import digest_of
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.store.eviction import Eviction, ReportedDigests
from gitcache.store.files import FileContent, FileMemo
from tests.fakes.clock import START, FakeClock

DAY = 86_400


class Disk:
    """A content store on a disk whose fill a test decides."""

    def __init__(self, folder: Path, memory: int = 0) -> None:
        self.folder = folder
        self.live = ReportedDigests()
        self.used, self.reserved = 0, 0
        self.content = FileContent(folder / "bundles", memory=memory)
        self.memo = FileMemo(folder / "memos", MessageAuthenticator("key", "memos"), entries=2)
        self.eviction = Eviction(
            self.content,
            self.memo,
            self.live,
            FakeClock(),
            keep=timedelta(days=30),
            watermark=0.85,
            usage=lambda path: (1000, self.used, 1000 - self.reserved - self.used),
        )

    async def put(self, data: bytes, days_old: float) -> str:
        """A bundle of a certain age; its digest."""
        digest = digest_of(data)
        await self.content.put(digest, data)
        self.age("bundles", digest, days_old)
        return digest

    def age(self, store: str, digest: str, days: float) -> None:
        """Let a file be of this age."""
        name, then = digest.removeprefix("sha256:"), START.timestamp() - days * DAY
        os.utime(self.folder / store / name[:2] / name[2:], (then, then))

    async def left(self, digests: Collection[str]) -> set[str]:
        """Those of these digests that are still there."""
        return {one for one in digests if await self.content.get(one) is not None}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_old_bundles_leave_unless_they_are_live(disk: Disk) -> None:
    live, spare, young = [await disk.put(bytes([n]), age) for n, age in ((1, 60), (2, 60), (3, 1))]
    disk.live.set_digests([live])
    await disk.eviction.run()
    assert await disk.left([live, spare, young]) == {live, young}


async def test_no_bundle_is_evicted_while_the_live_ones_are_unknown(disk: Disk) -> None:
    old = await disk.put(b"old", 60)
    disk.used = 999
    await disk.eviction.run()
    assert await disk.left([old]) == {old}


async def test_a_disk_beyond_its_watermark_loses_the_oldest_first(disk: Disk) -> None:
    bundles = [await disk.put(bytes([n]) * 50, 20 - n) for n in range(4)]
    live = await disk.put(b"live" * 20, 25)
    disk.live.set_digests([live])
    disk.used = 930
    await disk.eviction.run()
    assert await disk.left([*bundles, live]) == {*bundles[2:], live}


async def test_a_disk_is_as_full_for_eviction_as_for_new_clones(disk: Disk) -> None:
    spare = await disk.put(b"spare", 1)
    disk.live.set_digests([])
    disk.used, disk.reserved = 840, 50
    await disk.eviction.run()
    assert await disk.left([spare]) == set()


async def test_old_memos_leave(disk: Disk) -> None:
    memo = disk.folder / "memos" / "ab" / "c"
    memo.parent.mkdir(parents=True)
    memo.write_text("{}")
    os.utime(memo, (0, 0))
    await disk.eviction.run()
    assert not memo.exists()


async def test_what_is_used_stays_however_long_ago_it_was_written(tmp_path: Path) -> None:
    """No report of live bundles names the archive of a chart, which may be gone at its server."""
    disk = Disk(tmp_path, memory=8)
    disk.live.set_digests([])
    in_memory, spare, read = [await disk.put(bytes([n]) * 8, 60) for n in (1, 2, 3)]
    assert await disk.content.get(read) is not None
    disk.age("bundles", read, 60)
    assert await disk.content.get(in_memory) is not None
    disk.age("bundles", in_memory, 60)
    disk.age("bundles", spare, 60)
    await disk.eviction.run()
    assert await disk.left([in_memory, spare, read]) == {in_memory, read}


async def test_memos_in_memory_stay(disk: Disk) -> None:
    keys = [digest_of(bytes([number])) for number in range(3)]
    for key in keys:
        await disk.memo.put(key, {"k": key})
    for key in keys:
        disk.age("memos", key, 60)
    await disk.eviction.run()
    again = FileMemo(disk.memo.root, MessageAuthenticator("key", "memos"))
    assert [await again.get(key) is not None for key in keys] == [False, True, True]


async def test_an_empty_disk_is_no_failure(disk: Disk) -> None:
    disk.live.set_digests([])
    await disk.eviction.run()
