"""Servers, disks and copies fail: the last good state stays, others go on."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest
import structlog

from core.errors import TowlineError
from core.spec.source import GitCredentials, RenderRequest
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec, until
from towline.demo.git_server import GitServer, ServedRepository

FILES = {"web/a.yaml": config_map("a")}


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """A repository with one service."""
    repository = git_server.create_repository("shop")
    repository.commit(FILES)
    return repository


async def settled(cache: GitCache, repository: ServedRepository) -> str:
    """Follow it, and have its newest commit rendered; the sha."""
    sha = repository.resolve("refs/heads/main") or ""
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    await cache.render(RenderRequest(REPOSITORY, sha, "web"))
    return sha


def the_clone(stand: Stand) -> Path:
    (clone,) = stand.folder.glob("repositories/*.git")
    return clone


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(60, len(data), 97):
        data[place] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
async def test_a_damaged_object_is_noticed_and_the_clone_made_anew(
    repository: ServedRepository, stand: Stand, damage: Callable[[Path], None]
) -> None:
    """Loose objects and packs alike; nothing wrong is ever rendered."""
    cache = await stand.start()
    await settled(cache, repository)
    clone = the_clone(stand)
    for path in [*clone.glob("objects/??/*"), *clone.glob("objects/pack/*.pack")]:
        damage(path)
    sha = repository.commit({"web/a.yaml": config_map("a", "2")})
    await at_commit(cache, sha)
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).count == 1


async def test_a_deleted_repository_keeps_its_last_state_and_comes_back(
    repository: ServedRepository, stand: Stand
) -> None:
    cache = await stand.start()
    sha = await settled(cache, repository)
    away = repository.path.with_suffix(".away")
    repository.path.rename(away)
    state = await until(cache, lambda state: state.error)
    assert "no such repository" in (state.error or "") and state.commits["main"].sha == sha
    assert state.missing == frozenset()
    away.rename(repository.path)
    new = repository.commit({"web/a.yaml": config_map("a", "2")})
    await at_commit(cache, new)


async def test_clones_that_are_not_owned_make_room(
    repository: ServedRepository, stand: Stand
) -> None:
    """A full disk drops clones that nobody follows, and never those in use."""
    cache = await stand.start()
    await settled(cache, repository)
    await cache.drop_copies()
    clone = the_clone(stand)
    assert clone.exists()
    cache.forget(REPOSITORY)
    await until_gone(cache)
    await cache.drop_copies()
    assert not clone.exists()


async def until_gone(cache: GitCache) -> None:
    """Wait until the follower of a forgotten repository has ended."""
    async with asyncio.timeout(60):
        while cache.owner(REPOSITORY) is not None:
            await asyncio.sleep(0.01)


async def test_a_rotated_token_is_used_at_once(git_server: GitServer, cache: GitCache) -> None:
    repository = git_server.create_repository("shop", password="old")
    sha = repository.commit(FILES)
    cache.follow(spec(repository.url, credentials=GitCredentials(password="old")))
    await at_commit(cache, sha)
    git_server.create_repository("shop", password="new")
    state = await until(cache, lambda state: state.error)
    assert "refused the credentials (401)" in (state.error or "")
    assert state.reason == "ACCESS_DENIED"
    assert state.commits["main"].sha == sha
    cache.follow(spec(repository.url, credentials=GitCredentials(password="new")))
    await until(cache, lambda state: state.error is None)


async def test_retry_after_is_honoured_for_all_repositories_of_the_host(
    git_server: GitServer, cache: GitCache
) -> None:
    first, second = (git_server.create_repository(name) for name in ("shop", "other"))
    first.commit(FILES)
    second.commit(FILES)
    git_server.fail = HTTPStatus.SERVICE_UNAVAILABLE
    cache.follow(spec(first.url))
    state = await until(cache, lambda state: state.error)
    assert "limits the rate of requests (503)" in (state.error or "")
    git_server.fail = None
    cache.follow(spec(second.url, repository_id="other"))
    await until(cache, lambda state: state.commits, repository_id="other")


async def test_an_empty_answer_is_no_empty_repository(
    repository: ServedRepository, cache: GitCache, git_server: GitServer
) -> None:
    """Deleted refs are reported as missing, and rendered bundles are still there."""
    sha = await settled(cache, repository)
    repository.delete("refs/heads/main")
    state = await until(cache, lambda state: state.missing)
    assert state.error is None and "main" not in state.commits
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).cached


FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
import structlog
from core.errors import Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions

async def main(home, url, first, big, small):
    mirror = GitMirror(Path(home), MirrorOptions(), SystemClock())
    await mirror.open()
    follow = RepositorySpec(RepositoryId("shop"), url, frozenset({"main"}))
    await mirror.clones.fetch(follow, {"m": first})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        await mirror.clones.fetch(follow, {"m": big})
    except Unavailable as error:
        print(error.message)
    print(dict(await mirror.clones.pins(follow)) == {"m": first})
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await mirror.clones.fetch(follow, {"m": small})
    print(dict(await mirror.clones.pins(follow)) == {"m": small})
    await mirror.close()

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_full_disk_is_named_and_what_was_there_stays(
    git_server: GitServer, tmp_path: Path
) -> None:
    """Writes beyond a limit fail as on a full disk; in a process of its own, as limits are."""
    repository = git_server.create_repository("shop")
    first = repository.commit({"a": "1"})
    big = repository.commit({"big": os.urandom(3_000_000)})
    small = repository.commit({"big": None, "a": "2"})
    arguments = (str(tmp_path / "home"), repository.url, first, big, small)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", FULL, *arguments], capture_output=True, timeout=200
    )
    lines = done.stdout.decode().splitlines()
    assert lines[1:] == ["True", "True"], done.stderr.decode()
    assert "disk of the git cache is full" in lines[0]


SECRETS = ("canary-pa55word", "canary-pr0xy", "canary-passphra5e")


async def test_no_secret_is_seen_anywhere(
    git_server: GitServer, stand: Stand, capfd: pytest.CaptureFixture[str]
) -> None:
    """Credentials of failing and of working repositories, sought in logs, states, errors, files,
    and in the arguments of every process while git runs."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    git_server.delay = 0.05
    cache = await stand.start()
    good = git_server.create_repository("shop", password=SECRETS[0])
    sha = good.commit(FILES)
    closed = GitCredentials(
        username="u",
        password=SECRETS[0],
        passphrase=SECRETS[2],
        private_key="-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n-----END-----\n",
        proxy=f"http://u:{SECRETS[1]}@127.0.0.1:1",
    )
    urls = ["https://127.0.0.1:1/x", "ssh://git@127.0.0.1:1/x", f"{good.url}/none"]
    for number, url in enumerate(urls):
        cache.follow(spec(url, repository_id=f"bad{number}", credentials=closed))
    cache.follow(spec(good.url, credentials=GitCredentials(password=SECRETS[0])))
    seen: list[str] = []
    watching = asyncio.ensure_future(arguments_of_all(seen))
    await at_commit(cache, sha)
    for number in range(3):
        state = await until(cache, lambda state: state.error, repository_id=f"bad{number}")
        seen.append(repr(state))
    with pytest.raises(TowlineError) as caught:
        await cache.render(RenderRequest(REPOSITORY, "1" * 40, "web"))
    watching.cancel()
    out, err = capfd.readouterr()
    texts = [*seen, repr(caught.value), out, err, repr(closed), *all_files(stand.folder)]
    assert any("git" in text for text in seen)
    assert not [one for one in texts for secret in SECRETS if secret in one]


async def arguments_of_all(seen: list[str]) -> None:
    """The command lines of all processes, again and again."""
    while True:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(path.read_bytes().replace(b"\0", b" ").decode("latin-1"))
            except OSError:
                continue
        await asyncio.sleep(0.02)


def all_files(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
