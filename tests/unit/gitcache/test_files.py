"""Content and memos in files."""

import asyncio
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.spec.bundle import digest_of
from gitcache.domain.message_auth import MessageAuthenticator
from gitcache.store.files import FileContent, FileMemo, sweep

SEAL = MessageAuthenticator("a key of this installation", "memos")
ONE, TWO = b"one" * 100, b"two" * 100


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


async def test_stored_content_is_found_by_another_process(tmp_path: Path) -> None:
    await FileContent(tmp_path, memory=1000).put(digest_of(ONE), ONE)
    assert await FileContent(tmp_path, memory=0).get(digest_of(ONE)) == ONE


async def test_memory_is_bounded_and_disk_is_behind_it(tmp_path: Path) -> None:
    content = FileContent(tmp_path, memory=400)
    await content.put(digest_of(ONE), ONE)
    await content.put(digest_of(TWO), TWO)
    for path in files(tmp_path):
        path.unlink()
    assert await content.get(digest_of(TWO)) == TWO
    assert await content.get(digest_of(ONE)) is None


async def test_the_content_that_was_not_used_for_longest_leaves_the_memory(
    tmp_path: Path,
) -> None:
    three = b"thr" * 100
    content = FileContent(tmp_path, memory=700)
    for data in (ONE, TWO):
        await content.put(digest_of(data), data)
    await content.get(digest_of(ONE))
    await content.put(digest_of(three), three)
    assert set(content.in_memory()) == {digest_of(ONE), digest_of(three)}


async def test_content_read_by_many_at_once_takes_its_memory_once(tmp_path: Path) -> None:
    for data in (ONE, TWO):
        await FileContent(tmp_path, memory=0).put(digest_of(data), data)
    content = FileContent(tmp_path, memory=600)
    await asyncio.gather(*(content.get(digest_of(ONE)) for _ in range(5)))
    await content.get(digest_of(TWO))
    assert set(content.in_memory()) == {digest_of(ONE), digest_of(TWO)}


@pytest.mark.parametrize("damage", [b"", b"onf" * 100, ONE + b"x"])
async def test_damaged_content_is_dropped(tmp_path: Path, damage: bytes) -> None:
    await FileContent(tmp_path, memory=0).put(digest_of(ONE), ONE)
    (path,) = files(tmp_path)
    path.write_bytes(damage)
    content = FileContent(tmp_path, memory=1000)
    assert await content.get(digest_of(ONE)) is None
    assert files(tmp_path) == []
    await content.put(digest_of(ONE), ONE)
    assert await content.get(digest_of(ONE)) == ONE


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:../../../etc/passwd", "x" * 64])
async def test_only_digests_are_looked_up(tmp_path: Path, digest: str) -> None:
    (tmp_path / "passwd").write_text("root")
    assert await FileContent(tmp_path / "a" / "b", memory=0).get(digest) is None


async def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("in the way")
    with pytest.raises(Unavailable, match="disk of the git cache"):
        await FileContent(root, memory=1000).put(digest_of(ONE), ONE)


async def test_a_memo_is_kept_over_restarts_and_damage_is_forgetting(tmp_path: Path) -> None:
    key = digest_of(b"key")
    await FileMemo(tmp_path, SEAL).put(key, {"a": 1})
    assert await FileMemo(tmp_path, SEAL).get(key) == {"a": 1}
    (path,) = files(tmp_path)
    path.write_bytes(b"{")
    assert await FileMemo(tmp_path, SEAL).get(key) is None


async def test_a_memo_that_others_have_written_or_moved_is_not_believed(tmp_path: Path) -> None:
    key, other = digest_of(b"key"), digest_of(b"other")
    await FileMemo(tmp_path, SEAL).put(key, {"digest": "good"})
    (path,) = files(tmp_path)
    name = other.removeprefix("sha256:")
    moved = tmp_path / name[:2] / name[2:]
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    assert await FileMemo(tmp_path, SEAL).get(other) is None
    forged = MessageAuthenticator("another key", "memos").sign(key, b'{"digest": "evil"}')
    for text in (b'{"digest": "evil"}', forged, path.read_bytes().replace(b"good", b"evil")):
        path.write_bytes(text)
        assert await FileMemo(tmp_path, SEAL).get(key) is None


async def test_memos_in_memory_are_bounded(tmp_path: Path) -> None:
    memo = FileMemo(tmp_path, SEAL, entries=2)
    keys = [digest_of(bytes([number])) for number in range(5)]
    for key in keys:
        await memo.put(key, {"k": key})
    for path in files(tmp_path):
        path.unlink()
    assert [await memo.get(key) is not None for key in keys] == [False, False, False, True, True]


async def test_the_memo_that_was_not_used_for_longest_leaves_the_memory(tmp_path: Path) -> None:
    keys = [digest_of(bytes([number])) for number in range(3)]
    memo = FileMemo(tmp_path, SEAL, entries=2)
    for key in keys[:2]:
        await memo.put(key, {"k": key})
    await memo.get(keys[0])
    await memo.put(keys[2], {"k": keys[2]})
    assert set(memo.in_memory()) == {keys[0], keys[2]}
    assert await memo.get(keys[1]) == {"k": keys[1]}
    assert set(memo.in_memory()) == {keys[1], keys[2]}


def test_half_written_files_are_swept(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "cd.x.tmp").touch()
    (tmp_path / "ab" / "ef").touch()
    sweep(tmp_path)
    assert [path.name for path in files(tmp_path)] == ["ef"]
