"""The ways to fetch: the quick one, lean clones, submodules, Git LFS, and servers without them."""

import hashlib
import resource
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from core.errors import Invalid, TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RenderRequest, RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.transport.route import CredentialsRefused
from gitcache.ports import CommitsRejected
from tests.integration.gitcache.hostile import blob, commit, git, tree
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec
from towline.demo.git_server import GitServer, ServedRepository

OPTIONS = MirrorOptions(request_seconds=5, fetch_seconds=20, lean_entries=40, large_file=1000)
MANY = {f"d{number}/f.yaml": f"n: {number}\n" for number in range(40)}
POST = "git-upload-pack"


@pytest.fixture
def followed() -> dict[RepositoryId, RepositorySpec]:
    """The repositories that may be submodules."""
    return {}


@pytest.fixture
async def mirror(
    tmp_path: Path, followed: dict[RepositoryId, RepositorySpec]
) -> AsyncIterator[GitMirror]:
    """The git side, with bounds that are easily reached."""
    one = GitMirror(tmp_path / "home", OPTIONS, SystemClock(), followed=followed)
    await one.open()
    yield one
    await one.close()


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


async def contents(mirror: GitMirror, follow: RepositorySpec, sha: str) -> dict[str, bytes]:
    """All files of a commit."""
    record = await mirror.reader.commit(follow, sha)
    assert record is not None
    files = await mirror.reader.walk(follow, record.tree)
    read = await mirror.reader.blobs(follow, [entry.id for entry in files.values()])
    return {path: read[entry.id] for path, entry in files.items()}


async def test_a_small_change_takes_one_request_and_no_fetch_of_git(
    mirror: GitMirror, repository: ServedRepository, git_server: GitServer
) -> None:
    follow = spec(repository.url)
    await mirror.clones.fetch(follow, {"m": repository.commit({"a": "1", "b/c": "2"})})
    second = repository.commit({"b/c": "3"})
    third = repository.commit({"b/d": "4"})
    git_server.requests.clear()
    await mirror.clones.fetch(follow, {"m": third, "n": second})
    assert [one.rpartition("/")[2] for one in git_server.requests] in (
        [POST],
        ["refs?service=git-upload-pack", POST],
    )
    assert await mirror.clones.pins(follow) == {"m": third, "n": second}
    assert await contents(mirror, follow, third) == {"a": b"1", "b/c": b"3", "b/d": b"4"}
    git(mirror.clones.path(follow), "fsck", "--connectivity-only")


async def test_every_stage_is_counted_by_way_and_result_and_names_no_repository(
    mirror: GitMirror, repository: ServedRepository, git_server: GitServer
) -> None:
    registry = CollectorRegistry()
    registry.register(mirror.meters)
    follow = spec(repository.url)
    await mirror.clones.fetch(follow, {"m": repository.commit({"a": "1"})})
    await mirror.clones.fetch(follow, {"m": repository.commit({"a": "2"})})
    await mirror.lister.list_refs(follow, ["refs/heads/main"])
    git_server.create_repository("shop", password="pw")
    with pytest.raises(CredentialsRefused):
        await mirror.lister.list_refs(follow, ["refs/heads/main"])
    for name, way, result in (
        ("fetches", "clone", "ok"),
        ("fetches", "quick", "ok"),
        ("polls", "http", "ok"),
        ("polls", "http", "refused"),
    ):
        labels = {"way": way, "result": result}
        assert registry.get_sample_value(f"towline_git_{name}_total", labels) == 1
    assert registry.get_sample_value("towline_git_fetch_seconds_count", {"way": "clone"}) == 1
    assert (registry.get_sample_value("towline_git_packed_bytes_total") or 0) > 0
    assert 0 < (registry.get_sample_value("towline_git_disk_used_ratio") or 0) < 1
    assert "shop" not in generate_latest(registry).decode()


async def test_a_rewritten_history_and_back_is_right_both_times(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    follow = spec(repository.url)
    first = repository.commit({"a": "1"})
    second = repository.commit({"a": "2"})
    await mirror.clones.fetch(follow, {"m": second})
    repository.commit({"x": "other"}, branch="other")
    other = repository.commit({"y": "other"}, branch="other")
    for sha, files in ((other, {"x", "y"}), (first, {"a"}), (second, {"a"})):
        repository.point("refs/heads/main", sha)
        await mirror.clones.fetch(follow, {"m": sha})
        assert set(await contents(mirror, follow, sha)) == files
    assert await mirror.clones.pins(follow) == {"m": second}


async def test_a_large_change_goes_the_ordinary_way(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    follow = spec(repository.url)
    await mirror.clones.fetch(follow, {"m": repository.commit({"a": "1"})})
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(80_000))
    sha = repository.commit({"big": noise})
    clone = mirror.clones.path(follow)
    await mirror.clones.fetch(follow, {"m": sha})
    assert git(clone, "cat-file", "-s", f"{sha}:big") == str(len(noise))


async def test_the_fast_fetch_path_rejects_forbidden_trees(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    follow = spec(repository.url)
    good = repository.commit({"a": "1"})
    await mirror.clones.fetch(follow, {"m": good})
    evil = tree(repository, ("40000", ".git", tree(repository)))
    sha = commit(repository, evil)
    with pytest.raises(CommitsRejected):
        await mirror.clones.fetch(follow, {"m": sha})
    assert await mirror.clones.pins(follow) == {"m": good}


async def test_a_huge_repository_is_kept_lean_and_never_fetched_from_while_read(
    mirror: GitMirror, repository: ServedRepository, git_server: GitServer
) -> None:
    """More entries than the bound: folders come at once, files in one request when used."""
    follow = spec(repository.url)
    first = repository.commit(MANY)
    await mirror.clones.fetch(follow, {"m": first})
    clone = mirror.clones.path(follow)
    record = await mirror.reader.commit(follow, first)
    assert record is not None
    files = await mirror.reader.walk(follow, record.tree)
    assert missing(clone, first) == 40
    git_server.requests.clear()
    wanted = [entry.id for path, entry in files.items() if path < "d2"]
    assert len(await mirror.reader.blobs(follow, wanted)) == len(wanted)
    assert len(git_server.requests) == 1
    second = repository.commit({"d7/f.yaml": "n: new\n"})
    await mirror.clones.fetch(follow, {"m": second})
    assert (await contents(mirror, follow, second))["d7/f.yaml"] == b"n: new\n"
    git_server.stop()
    assert len(await contents(mirror, follow, second)) == 40


def missing(clone: Path, sha: str) -> int:
    """Number of objects of a commit that are missing in the clone."""
    text = git(clone, "rev-list", "--objects", "--missing=print", sha)
    return sum(line.startswith("?") for line in text.splitlines())


async def test_files_in_use_of_a_lean_clone_come_with_the_commit(
    mirror: GitMirror, repository: ServedRepository, git_server: GitServer
) -> None:
    """One request for the files in use at first, then one a commit, files included."""
    follow = replace(spec(repository.url), folders=frozenset({"d1", "d2", "gone"}))
    first = repository.commit(MANY | {".gitattributes": "* text", "d1/.gitattributes": "* text"})
    await mirror.clones.fetch(follow, {"m": first})
    assert (mirror.clones.path(follow) / "lean").exists()
    assert await requests_for(mirror, follow, first, git_server) == 1
    assert await requests_for(mirror, follow, first, git_server) == 0
    second = repository.commit({"d1/f.yaml": "n: new\n"})
    git_server.requests.clear()
    await mirror.clones.fetch(follow, {"m": second})
    assert len(git_server.requests) == 1
    assert await requests_for(mirror, follow, second, git_server) == 0
    record = await mirror.reader.commit(follow, second)
    assert record is not None
    git_server.stop()
    entry = (await mirror.reader.ids(follow, record.tree, ["d1/f.yaml"]))["d1/f.yaml"]
    assert entry and await mirror.reader.blobs(follow, [entry.id]) == {entry.id: b"n: new\n"}


async def requests_for(
    mirror: GitMirror, follow: RepositorySpec, sha: str, git_server: GitServer
) -> int:
    """Number of requests for the files of a commit."""
    record = await mirror.reader.commit(follow, sha)
    assert record is not None
    git_server.requests.clear()
    await mirror.reader.prefetch(follow, record.tree, follow.folders)
    return len(git_server.requests)


async def test_a_huge_repository_is_cloned_whole_if_much_of_it_is_in_use(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    follow = replace(spec(repository.url), folders=frozenset(f"d{n}" for n in range(20)))
    sha = repository.commit(MANY)
    await mirror.clones.fetch(follow, {"m": sha})
    assert missing(mirror.clones.path(follow), sha) == 0


async def test_a_git_bomb_costs_no_more_than_what_was_sent(
    tmp_path: Path, repository: ServedRepository, git_server: GitServer
) -> None:
    """10^16 files by name, in 16 folders: followed in bounded time, others are not held up."""
    inner = tree(repository, ("100644", "a.yaml", blob(repository, config_map("a").encode())))
    fine = inner
    for _ in range(16):
        inner = tree(repository, *(("40000", f"d{number}", inner) for number in range(10)))
    root = tree(repository, ("40000", "bomb", inner), ("40000", "web", fine))
    sha = commit(repository, root)
    stand = Stand(tmp_path / "cache")
    try:
        cache = await stand.start(lean_entries=40)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cache.follow(spec(repository.url))
        await at_commit(cache, sha)
        assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).count == 1
        with pytest.raises(Invalid, match="more than 10,000 files"):
            await cache.render(RenderRequest(REPOSITORY, sha, "bomb"))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    finally:
        await stand.close()


async def test_a_lean_clone_is_packed_without_what_it_lacks(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    follow = spec(repository.url)
    sha = repository.commit(MANY)
    await mirror.clones.fetch(follow, {"m": sha})
    for number in range(24):
        sha = repository.commit({"d1/f.yaml": f"v: {number}\n"})
        await mirror.clones.fetch(follow, {"m": sha})
    clone = mirror.clones.path(follow)
    before = len(list(clone.glob("objects/pack/*.pack")))
    await mirror.clones.maintain(follow)
    assert len(list(clone.glob("objects/pack/*.pack"))) < before
    assert len(await contents(mirror, follow, sha)) == 40


async def test_a_server_that_does_not_filter_gives_everything(
    mirror: GitMirror, repository: ServedRepository
) -> None:
    git(repository.path, "config", "uploadpack.allowFilter", "false")
    follow = spec(repository.url)
    sha = repository.commit(MANY)
    await mirror.clones.fetch(follow, {"m": sha})
    assert missing(mirror.clones.path(follow), sha) == 0


@pytest.mark.parametrize("branch", ["main", "side"])
async def test_a_server_that_gives_out_tips_only_is_asked_for_its_history(
    tmp_path: Path, mirror: GitMirror, repository: ServedRepository, branch: str
) -> None:
    """Protocol version 0 without allowReachableSHA1InWant, as very old servers speak it."""
    old = repository.commit({"a": "1"}, branch=branch)
    repository.commit({"a": "2"}, branch=branch)
    tip = repository.commit({"a": "3"})
    git(repository.path, "config", "protocol.version", "0")
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\nunset GIT_PROTOCOL\nfor word; do command="$word"; done\neval "$command"\n'
    )
    ssh.chmod(0o755)
    one = GitMirror(tmp_path / "old", replace(OPTIONS, ssh=str(ssh)), SystemClock())
    await one.open()
    follow = spec(f"ssh://git@127.0.0.1{repository.path}")
    await one.clones.fetch(follow, {"m": tip})
    await one.clones.fetch(follow, {"at-old": old})
    assert await contents(one, follow, old) == {"a": b"1"}
    with pytest.raises(CommitsRejected):
        await one.clones.fetch(follow, {"at-none": "1" * 40})
    await one.close()


def with_submodule(repository: ServedRepository, url: str, sha: str) -> str:
    """A commit with a folder `web` that holds a file and a submodule `lib`."""
    modules = blob(repository, f'[submodule "l"]\n\tpath = web/lib\n\turl = {url}\n'.encode())
    web = tree(
        repository,
        ("100644", "a.yaml", blob(repository, b"a: 1\n")),
        ("160000", "lib", sha),
    )
    root = tree(repository, ("100644", ".gitmodules", modules), ("40000", "web", web))
    return commit(repository, root)


async def test_a_submodule_is_read_if_its_repository_is_followed_in_the_same_project(
    mirror: GitMirror,
    followed: dict[RepositoryId, RepositorySpec],
    repository: ServedRepository,
    git_server: GitServer,
) -> None:
    library = git_server.create_repository("library", password="pw")
    inner = library.commit({"b.yaml": "b: 1\n"})
    sha = with_submodule(repository, "../library.git", inner)
    follow = replace(spec(repository.url), submodules=True, project="p")
    other = spec(library.url, repository_id="library")
    followed[other.id] = replace(other, project="q")
    await mirror.clones.fetch(follow, {"m": sha})
    with pytest.raises(Invalid, match=r"submodule 'web/lib' is not a followed repository"):
        await contents(mirror, follow, sha)
    followed[other.id] = replace(other, project="p")
    with pytest.raises(Unavailable, match="refused the credentials"):
        await contents(mirror, follow, sha)
    followed[other.id] = replace(followed[other.id], credentials=GitCredentials(password="pw"))
    files = await contents(mirror, follow, sha)
    assert files["web/a.yaml"] == b"a: 1\n" and files["web/lib/b.yaml"] == b"b: 1\n"


@pytest.mark.parametrize("url", ["file:///etc", "ext::sh -c id", "http://169.254.169.254/x"])
async def test_a_submodule_leads_nowhere_by_its_own_url(
    mirror: GitMirror,
    followed: dict[RepositoryId, RepositorySpec],
    repository: ServedRepository,
    url: str,
) -> None:
    sha = with_submodule(repository, url, "1" * 40)
    follow = replace(spec(repository.url), submodules=True)
    followed[follow.id] = follow
    await mirror.clones.fetch(follow, {"m": sha})
    with pytest.raises(Invalid, match="not a followed repository"):
        await contents(mirror, follow, sha)
    plain = replace(follow, submodules=False)
    assert "web/a.yaml" in await contents(mirror, plain, sha)


class LfsServer:
    """A Git LFS server in front of the git server."""

    def __init__(self, git_server: GitServer) -> None:
        self.git_server = git_server
        self.files: dict[str, bytes] = {}
        self.batches = 0
        self.target = ""
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/info/lfs/objects/batch"):
            self.batches += 1
            asked = orjson.loads(await request.read())["objects"]
            found = [
                {
                    **one,
                    "actions": {
                        "download": {"href": f"{self.target or self.url}/files/{one['oid']}"}
                    },
                }
                for one in asked
                if one["oid"] in self.files
            ]
            return web.json_response({"objects": found})
        if request.path.startswith("/files/"):
            return web.Response(body=self.files[request.match_info["path"].partition("/")[2]])
        raise web.HTTPTemporaryRedirect(
            f"http://127.0.0.1:{self.git_server.port}{request.raw_path}"
        )


@pytest.fixture
async def lfs(git_server: GitServer) -> AsyncIterator[LfsServer]:
    server = LfsServer(git_server)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{running.addresses[0][1]}"
    yield server
    await running.cleanup()


def pointer(data: bytes, size: int | None = None) -> tuple[str, bytes]:
    """The id of a large file and its pointer."""
    oid = hashlib.sha256(data).hexdigest()
    text = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size or len(data)}\n"
    )
    return oid, text.encode()


async def lfs_follow(
    mirror: GitMirror, repository: ServedRepository, lfs: LfsServer, text: bytes
) -> tuple[RepositorySpec, str]:
    """A repository with one pointer, cloned; its LFS interface is the fake server's."""
    sha = repository.commit({"big.bin": text})
    follow = spec(repository.url)
    await mirror.clones.fetch(follow, {"m": sha})
    elsewhere = replace(follow, url=f"{lfs.url}/shop.git")
    mirror.clones.path(elsewhere).parent.mkdir(parents=True, exist_ok=True)
    mirror.clones.path(follow).rename(mirror.clones.path(elsewhere))
    return elsewhere, sha


async def test_a_large_file_is_fetched_once_and_checked(
    mirror: GitMirror, repository: ServedRepository, lfs: LfsServer
) -> None:
    data = b"large" * 100
    oid, text = pointer(data)
    lfs.files[oid] = data
    follow, sha = await lfs_follow(mirror, repository, lfs, text)
    assert await contents(mirror, follow, sha) == {"big.bin": data}
    assert await contents(mirror, follow, sha) == {"big.bin": data}
    assert lfs.batches == 1


@pytest.mark.parametrize(
    ("served", "size", "target", "reason"),
    [
        (b"other", None, "", "too long|does not match"),
        (b"", None, "", "does not match"),
        (None, None, "", "lacks some files"),
        (b"x" * 5000, 5000, "", "the limit is 1,000"),
        (b"large", None, "http://169.254.169.254", "not allowed"),
        (b"large", None, "file:///etc", "not http or https"),
    ],
)
async def test_a_large_file_that_is_not_what_it_should_be_is_refused_by_name(
    mirror: GitMirror,
    repository: ServedRepository,
    lfs: LfsServer,
    served: bytes | None,
    size: int | None,
    target: str,
    reason: str,
) -> None:
    oid, text = pointer(b"larg!", size)
    if served is not None:
        lfs.files[oid] = served
    lfs.target = target
    follow, sha = await lfs_follow(mirror, repository, lfs, text)
    with pytest.raises(TowlineError, match=reason):
        await contents(mirror, follow, sha)


async def test_a_disk_beyond_its_watermark_takes_no_further_repository(
    tmp_path: Path, repository: ServedRepository
) -> None:
    """Repositories that are here go on."""
    first = repository.commit({"a": "1"})
    follow = spec(repository.url)
    roomy = GitMirror(tmp_path / "home", OPTIONS, SystemClock())
    await roomy.open()
    await roomy.clones.fetch(follow, {"m": first})
    await roomy.close()
    full = GitMirror(tmp_path / "home", replace(OPTIONS, watermark=0.000001), SystemClock())
    await full.open()
    second = repository.commit({"a": "2"})
    await full.clones.fetch(follow, {"m": second})
    with pytest.raises(Unavailable, match="add disk space"):
        await full.clones.fetch(replace(follow, url=f"{follow.url}/"), {"m": second})
    await full.close()


async def test_a_server_that_asks_for_fewer_requests_is_left_alone(
    mirror: GitMirror, repository: ServedRepository, git_server: GitServer
) -> None:
    repository.commit({"a": "1"})
    git_server.fail = HTTPStatus.TOO_MANY_REQUESTS
    follow = spec(repository.url)
    with pytest.raises(Unavailable, match="limits the rate of requests"):
        await mirror.lister.list_refs(follow, ["refs/heads/main"])
