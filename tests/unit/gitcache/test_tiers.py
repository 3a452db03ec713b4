"""Content stores behind each other."""

import asyncio

import pytest
from obstore.store import MemoryStore

from core.errors import Invalid, Unavailable
from core.spec.bundle import digest_of
from gitcache.store.objects import ObjectContent, open_objects
from gitcache.sync.tiers import TieredContent
from tests.fakes.clock import settle
from tests.fakes.gitcache import FakeContent

DATA = b'[{"kind":"ConfigMap"}]'
DIGEST = digest_of(DATA)


class Counted(FakeContent):
    """Counts what it is asked, and answers a little later."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def get(self, digest: str) -> bytes | None:
        self.asked += 1
        await asyncio.sleep(0)
        return await super().get(digest)


async def nothing_to_free() -> None:
    """The disk has room."""


async def test_writes_reach_the_near_tier_at_once_and_the_far_one_soon() -> None:
    near, far = FakeContent(), FakeContent()
    tiers = TieredContent(near, [far], nothing_to_free)
    await tiers.put(DIGEST, DATA)
    assert near.kept == {DIGEST: DATA}
    await settle()
    assert far.kept == {DIGEST: DATA}


async def test_reads_of_far_content_are_shared_and_cached_near() -> None:
    near, far = FakeContent(), Counted()
    far.kept[DIGEST] = DATA
    tiers = TieredContent(near, [far], nothing_to_free)
    found = await asyncio.gather(*(tiers.get(DIGEST) for _ in range(100)))
    assert set(found) == {DATA} and far.asked == 1
    assert near.kept == {DIGEST: DATA}


async def test_content_that_is_near_is_not_asked_for_elsewhere() -> None:
    near, far = FakeContent(), Counted()
    near.kept[DIGEST] = DATA
    assert await TieredContent(near, [far], nothing_to_free).get(DIGEST) == DATA
    assert far.asked == 0


async def test_copies_are_made_however_many_there_were_before() -> None:
    near, far = FakeContent(), FakeContent()
    tiers = TieredContent(near, [far], nothing_to_free)
    for number in range(1_100):
        await tiers.put(f"sha256:{number:064}", DATA)
        await settle(3)
    assert len(far.kept) == 1_100


async def test_a_far_store_that_is_broken_stops_nobody() -> None:
    near, broken, last = FakeContent(), FakeContent(), FakeContent()
    broken.broken = True
    tiers = TieredContent(near, [broken, last], nothing_to_free)
    await tiers.put(DIGEST, DATA)
    await settle()
    assert last.kept == {DIGEST: DATA}
    near.broken = True
    with pytest.raises(Unavailable):
        await tiers.put(DIGEST, DATA)


async def test_an_object_store_keeps_and_gives_bundles() -> None:
    objects = ObjectContent(MemoryStore())
    assert await objects.get(DIGEST) is None
    await objects.put(DIGEST, DATA)
    assert await objects.get(DIGEST) == DATA
    assert await objects.get("../../etc/passwd") is None


async def test_content_with_a_wrong_digest_is_not_returned() -> None:
    store = MemoryStore()
    objects = ObjectContent(store)
    await objects.put(DIGEST, DATA)
    for listed in store.list().collect():
        await store.put_async(listed["path"], b"[]")
    assert await objects.get(DIGEST) is None


async def test_a_folder_can_be_the_object_store(tmp_path) -> None:
    objects = open_objects(f"file://{tmp_path}")
    await objects.put(DIGEST, DATA)
    assert await open_objects(f"file://{tmp_path}").get(DIGEST) == DATA


def test_an_unknown_kind_of_store_is_named() -> None:
    with pytest.raises(Invalid, match="'nowhere'"):
        open_objects("nowhere://bucket")


async def test_a_full_disk_is_made_room_on_once_and_then_takes_it() -> None:
    near, rooms = FakeContent(), 0
    near.broken = True

    async def make_room() -> None:
        nonlocal rooms
        rooms += 1
        await asyncio.sleep(0.01)
        near.broken = False

    tiers = TieredContent(near, [], make_room)
    await asyncio.gather(*(tiers.put(digest_of(bytes([n])), bytes([n])) for n in range(5)))
    assert len(near.kept) == 5 and rooms == 1


async def test_a_disk_that_stays_full_says_so() -> None:
    near = FakeContent()
    near.broken = True

    async def in_vain() -> None:
        """Nothing could be removed."""

    with pytest.raises(Unavailable):
        await TieredContent(near, [], in_vain).put(DIGEST, DATA)


class Hidden(FakeContent):
    """Cannot be asked."""

    async def get(self, digest: str) -> bytes | None:
        raise Unavailable("does not answer")


async def test_an_unreachable_tier_does_not_count_as_absent() -> None:
    last = FakeContent()
    tiers = TieredContent(FakeContent(), [Hidden(), last], nothing_to_free)
    with pytest.raises(Unavailable):
        await tiers.get(DIGEST)
    last.kept[DIGEST] = DATA
    assert await tiers.get(DIGEST) == DATA


async def test_copies_under_way_arrive_before_the_end() -> None:
    """A replica that stops right after a render may have had the only copy."""
    far = FakeContent()

    class Slow(FakeContent):
        async def put(self, digest: str, data: bytes) -> None:
            await asyncio.sleep(0.05)
            await far.put(digest, data)

    tiers = TieredContent(FakeContent(), [Slow()], nothing_to_free)
    await tiers.put(DIGEST, DATA)
    await tiers.stop()
    assert far.kept == {DIGEST: DATA}
