"""Clones as they grow, and reading them."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import Invalid
from core.runtime.clock import SystemClock
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.trees import GitTrees, TreeLimits
from tests.integration.gitcache.hostile import git
from tests.integration.gitcache.stand import spec
from towline.demo.git_server import GitServer, ServedRepository


class Place:
    """Clones in a folder and a reader over them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mirror = GitMirror(home, MirrorOptions(), SystemClock())
        self.clones = self.mirror.clones
        self.clones.open()
        self.trees = GitTrees(
            self.clones,
            TreeLimits(100, 10_000, cached_entries=1, open_clones=2),
            self.mirror.large_files,
            self.mirror.submodules,
        )


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path / "repositories")
    yield place
    await place.trees.close()
    await place.mirror.close()


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


async def test_a_clone_is_shallow_bare_and_pinned(
    place: Place, repository: ServedRepository
) -> None:
    for number in range(5):
        sha = repository.commit({"a.yaml": str(number)})
    await place.clones.fetch(spec(repository.url), {"main": sha})
    clone = place.clones.path(spec(repository.url))
    assert git(clone, "rev-list", "--count", sha) == "1"
    assert git(clone, "config", "core.bare") == "true"
    assert await place.clones.pins(spec(repository.url)) == {"main": sha}
    assert "127.0.0.1" not in (clone / "config").read_text()


def scatter(clone: Path) -> None:
    """Store loose blobs until the sampled folder of objects holds ten of them."""
    for number in range(10_000):
        if len(list(clone.glob("objects/17/*"))) >= 10:
            return
        data = b"%d" % number
        name = hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()
        if name.startswith("17"):
            git(clone, "hash-object", "-w", "--stdin", stdin=data)


async def test_a_clone_that_has_become_scattered_is_packed_while_it_is_read(
    place: Place, repository: ServedRepository
) -> None:
    follow = spec(repository.url)
    for number in range(25):
        sha = repository.commit({f"f{number}.bin": str(number) * 50, "a.yaml": str(number)})
        await place.clones.fetch(follow, {"main": sha})
    clone = place.clones.path(follow)
    scatter(clone)
    await place.clones.fetch(follow, {"at-old": sha})

    async def read() -> None:
        for _ in range(20):
            record = await place.trees.commit(follow, sha)
            assert record is not None
            await place.trees.walk(follow, record.tree)

    await asyncio.gather(read(), place.clones.maintain(follow))
    assert len(list(clone.glob("objects/pack/*.pack"))) == 1
    assert await place.clones.pins(follow) == {"main": sha}
    assert await place.trees.commit(follow, sha) is not None


async def test_clones_that_nobody_follows_are_deleted(place: Place, git_server: GitServer) -> None:
    specs = []
    for name in ("a", "b"):
        repository = git_server.create_repository(name)
        follow = spec(repository.url, repository_id=name)
        await place.clones.fetch(follow, {"main": repository.commit({"x": name})})
        specs.append(follow)
    assert await place.clones.keep_only(specs[:1]) == 1
    assert [place.clones.path(one).exists() for one in specs] == [True, False]


async def test_few_processes_serve_many_clones(place: Place, git_server: GitServer) -> None:
    for number in range(5):
        repository = git_server.create_repository(f"r{number}")
        sha = repository.commit({"a.yaml": str(number)})
        follow = spec(repository.url, repository_id=f"r{number}")
        await place.clones.fetch(follow, {"main": sha})
        assert await place.trees.commit(follow, sha) is not None
    assert readers(place.home) == 2


async def test_many_readers_of_many_clones_never_stumble(
    place: Place, git_server: GitServer
) -> None:
    """More clones are read at the same time than may be held open; none is left over."""
    shas = {}
    for number in range(6):
        repository = git_server.create_repository(f"r{number}")
        follow = spec(repository.url, repository_id=f"r{number}")
        shas[follow] = repository.commit({"a/b/c.yaml": str(number)})
        await place.clones.fetch(follow, {"main": shas[follow]})

    async def read() -> None:
        for follow, sha in shas.items():
            record = await place.trees.commit(follow, sha)
            assert record is not None
            assert list(await place.trees.walk(follow, record.tree)) == ["a/b/c.yaml"]

    await asyncio.gather(*(read() for _ in range(10)))
    for follow in shas:
        await place.trees.release(follow)
    assert readers(place.home) == 0


def readers(clones: Path) -> int:
    """Number of processes of this thread that read one of the clones."""
    running = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in running]
    return sum("cat-file" in command and str(clones) in command for command in commands)


async def test_a_cancelled_read_does_not_confuse_the_next(
    place: Place, repository: ServedRepository
) -> None:
    """Answers that nobody waits for any more must not be taken for those of the next reader."""
    sha = repository.commit({f"d{number}/a.yaml": str(number) for number in range(50)})
    follow = spec(repository.url)
    await place.clones.fetch(follow, {"main": sha})
    record = await place.trees.commit(follow, sha)
    assert record is not None
    for turns in range(12):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(place.trees.walk(follow, record.tree))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
        assert len(await place.trees.walk(follow, record.tree)) == 50


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({f"f{number}": "" for number in range(150)}, "more than 100 files"),
        ({"/".join(["d"] * 80) + "/f": ""}, "levels deep"),
        ({"big": "x" * 20_000}, "20,000 bytes"),
    ],
)
async def test_reading_is_bounded(
    place: Place, repository: ServedRepository, files: dict[str, str | bytes | None], reason: str
) -> None:
    sha = repository.commit(files)
    follow = spec(repository.url)
    await place.clones.fetch(follow, {"main": sha})
    record = await place.trees.commit(follow, sha)
    assert record is not None
    with pytest.raises(Invalid, match=reason):
        found = await place.trees.walk(follow, record.tree)
        await place.trees.blobs(follow, [entry.id for entry in found.values()])
