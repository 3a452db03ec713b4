"""Commits and requests that go back to git, on real servers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.edits import (
    CopyFolder,
    DeleteFile,
    MergeRequest,
    MergeRequestState,
    PutFile,
    SetField,
    SetImage,
)
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.compose import build_write_service
from gitcache.mirror.history import HistoryReader
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.settings import GitCacheSettings
from gitcache.write.merge_requests import MergeRequestService, Provider
from gitcache.write.writer import CommitWriter
from tests.integration.gitcache.hostile import git
from tests.integration.gitcache.stand import spec
from towline.demo.git_server import GitServer, ServedRepository
from towline.serve.git_hosts import GitHostAdapter

ANN = "Ann Example <ann@example.org>"
FILES = {
    "web/a.yaml": "image: shop:1 # ours\nreplicas: 1\n",
    "web/b.yaml": "b: 1\n",
    "run.sh": "#!/bin/sh\n",
}


@pytest.fixture
async def mirror(tmp_path: Path) -> AsyncIterator[GitMirror]:
    """The git side."""
    one = GitMirror(tmp_path / "home", MirrorOptions(lean_entries=40), SystemClock())
    await one.open()
    yield one
    await one.close()


@pytest.fixture
def writer(mirror: GitMirror) -> CommitWriter:
    """Writes through it."""
    return CommitWriter(mirror, SystemClock())


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """A repository with some files."""
    repository = git_server.create_repository("shop", password="pw")
    repository.commit(FILES)
    return repository


@pytest.fixture
def follow(repository: ServedRepository) -> RepositorySpec:
    """The same, as it is followed."""
    return spec(repository.url, credentials=GitCredentials(password="pw"))


def shown(repository: ServedRepository, name: str) -> str:
    """A file of the newest commit, or whatever else git calls so."""
    return git(repository.path, "show", name)


async def test_edits_become_one_signed_off_commit_on_the_branch(
    writer: CommitWriter, repository: ServedRepository, follow: RepositorySpec, mirror: GitMirror
) -> None:
    before = repository.resolve("refs/heads/main")
    edits = [
        SetImage("web/a.yaml", "shop", "2"),
        SetField("web/a.yaml", ["replicas"], 3),
        CopyFolder("web", "prod/web"),
        DeleteFile("web/b.yaml"),
        PutFile("new/c.yaml", b"c: 1\n"),
        SetField("prod/web/b.yaml", ["b"], 2),
    ]
    sha = await writer.commit(follow, "main", "main", edits, ANN, "Move the shop on")
    assert repository.resolve("refs/heads/main") == sha
    assert shown(repository, "main:web/a.yaml") == "image: shop:2 # ours\nreplicas: 3"
    assert shown(repository, "main:prod/web/a.yaml") == "image: shop:1 # ours\nreplicas: 1"
    assert shown(repository, "main:prod/web/b.yaml") == "b: 2"
    names = git(repository.path, "ls-tree", "-r", "--name-only", "main").split()
    assert names == ["new/c.yaml", "prod/web/a.yaml", "prod/web/b.yaml", "run.sh", "web/a.yaml"]
    log_lines = git(
        repository.path, "log", "-1", "--format=%P%n%an <%ae>%n%cn%n%B", "main"
    ).splitlines()
    assert log_lines[:4] == [before, ANN, "Ann Example", "Move the shop on"]
    assert log_lines[-1] == f"Signed-off-by: {ANN}"
    assert not list(mirror.clones.path(follow).parent.glob("tmp-*"))


async def test_a_new_branch_begins_at_its_base_and_nothing_to_change_is_no_commit(
    writer: CommitWriter, repository: ServedRepository, follow: RepositorySpec
) -> None:
    base = repository.resolve("refs/heads/main")
    edit = PutFile("web/b.yaml", b"b: 1\n")
    assert await writer.commit(follow, "main", "main", [edit], ANN, "No change") == base
    assert await writer.commit(follow, "bump", "main", [edit], ANN, "No change") is None
    assert "bump" not in git(repository.path, "branch", "--list")
    sha = await writer.commit(
        follow, "bump", "main", [SetField("web/b.yaml", ["b"], 5)], ANN, "Bump"
    )
    assert repository.resolve("refs/heads/bump") == sha
    assert repository.resolve("refs/heads/main") == base
    again = SetField("web/b.yaml", ["b"], 5)
    assert await writer.commit(follow, "bump", "main", [again], ANN, "Bump") == sha


async def test_writers_at_the_same_time_lose_nothing(
    writer: CommitWriter, repository: ServedRepository, follow: RepositorySpec
) -> None:
    """Each commit is pushed on top of the others, whoever was quicker."""
    await writer.commit(follow, "main", "main", [PutFile("first.yaml", b"n: 1\n")], ANN, "Add")
    edits = [[PutFile(f"n{number}.yaml", b"n: 1\n")] for number in range(4)]
    await asyncio.gather(
        *(writer.commit(follow, "main", "main", edit, ANN, "Add") for edit in edits)
    )
    names = git(repository.path, "ls-tree", "-r", "--name-only", "main").split()
    assert {f"n{number}.yaml" for number in range(4)} <= set(names)
    assert git(repository.path, "rev-list", "--count", "main") == "6"


async def test_a_branch_that_never_stands_still_is_given_up(
    mirror: GitMirror, repository: ServedRepository, follow: RepositorySpec
) -> None:
    class Behind:
        """Shows an old tip every time."""

        async def list_refs(self, spec: RepositorySpec, prefixes: Any) -> dict[str, str]:
            old = git(repository.path, "rev-parse", "main")
            repository.commit({"x": old})
            return {"refs/heads/main": old}

    writer = CommitWriter(mirror, SystemClock(), lister=Behind())
    with pytest.raises(Conflict, match="kept moving"):
        await writer.commit(follow, "main", "main", [PutFile("y", b"")], ANN, "Add")
    assert "y" not in git(repository.path, "ls-tree", "--name-only", "main").split()


async def test_the_message_of_a_declined_push_is_reported(
    writer: CommitWriter, repository: ServedRepository, follow: RepositorySpec
) -> None:
    hook = repository.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho protected: ask the owners\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Forbidden, match="ask the owners"):
        await writer.commit(follow, "main", "main", [PutFile("y", b"")], ANN, "Add")


async def test_a_lean_clone_can_be_written_from(
    writer: CommitWriter, mirror: GitMirror, repository: ServedRepository, follow: RepositorySpec
) -> None:
    """Without the files that the commit leaves as they are."""
    sha = repository.commit({f"d{number}/f.yaml": f"n: {number}\n" for number in range(40)})
    await mirror.clones.fetch(follow, {"m": sha})
    assert (mirror.clones.path(follow) / "lean").exists()
    edit = SetField("d3/f.yaml", ["n"], 33)
    await writer.commit(follow, "main", "main", [edit], ANN, "Set")
    assert shown(repository, "main:d3/f.yaml") == "n: 33"
    assert shown(repository, "main:d4/f.yaml") == "n: 4"
    git(repository.path, "fsck", "--full")


@pytest.mark.parametrize(
    ("edits", "author", "branch", "reason"),
    [
        ([], ANN, "main", "1 to 500 edits"),
        ([PutFile(".git/config", b"")], ANN, "main", "not a file path in the repository"),
        ([PutFile("../x", b"")], ANN, "main", "leaves the repository"),
        ([SetField("none.yaml", ["a"], 1)], ANN, "main", "no file 'none.yaml'"),
        ([SetField("web/b.yaml", ["z"], 1)], ANN, "main", r"web/b\.yaml: field: .* no field z"),
        ([CopyFolder("none", "x")], ANN, "main", "no folder 'none'"),
        ([PutFile("a", b"x" * (5 << 20))], ANN, "main", "more than"),
        ([PutFile("a", b"")], "Eve\n<x>", "main", "author"),
        ([PutFile("a", b"")], ANN, "-x --upload-pack=id", "not a branch name"),
    ],
)
async def test_invalid_commits_are_refused_with_the_reason(
    writer: CommitWriter,
    repository: ServedRepository,
    follow: RepositorySpec,
    edits: list[Any],
    author: str,
    branch: str,
    reason: str,
) -> None:
    before = repository.resolve("refs/heads/main")
    with pytest.raises(Invalid, match=reason):
        await writer.commit(follow, branch, "main", edits, author, "Add")
    assert repository.resolve("refs/heads/main") == before


async def test_a_branch_without_a_base_is_not_found(
    writer: CommitWriter, follow: RepositorySpec
) -> None:
    with pytest.raises(NotFound, match="neither a branch"):
        await writer.commit(follow, "x", "y", [PutFile("a", b"")], ANN, "Add")


class Host:
    """The interfaces of the three hosts, as far as they are used, over one list of requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.tokens: set[str] = set()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers["Authorization"])
        gitlab = "/api/v4/" in request.path
        assert (
            request.raw_path.partition("?")[0]
            .partition("/api/")[2]
            .split("/", 1)[1]
            .startswith(
                "projects/team%2Fshop/merge_requests" if gitlab else "repos/team/shop/pulls"
            )
        )
        if request.method == "POST":
            return web.json_response(self._open(await request.json(), gitlab), status=201)
        if request.method in {"PUT", "PATCH"}:
            given = await request.json()
            assert given == ({"state_event": "close"} if gitlab else {"state": "closed"})
            assert (request.method == "PUT") == gitlab
            self.requests[int(request.path.rpartition("/")[2]) - 1]["state"] = "closed"
        last = request.path.rpartition("/")[2]
        if last.isdecimal():
            return web.json_response(self.requests[int(last) - 1])
        return web.json_response(
            [one for one in self.requests if one["state"] in {"open", "opened"}]
        )

    def _open(self, given: dict[str, str], gitlab: bool) -> dict[str, Any]:
        number = len(self.requests) + 1
        if gitlab:
            made = {"iid": number, "web_url": f"u/{number}", "state": "opened", **given}
        else:
            made = {
                "number": number,
                "html_url": f"u/{number}",
                "state": "open",
                "head": {"ref": given["head"]},
                "base": {"ref": given["base"]},
            }
        self.requests.append(made)
        return made


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", host.answer)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    host.url = f"http://127.0.0.1:{running.addresses[0][1]}"
    yield host
    await running.cleanup()


async def test_a_branch_is_deleted_unless_somebody_else_has_committed_to_it(
    writer: CommitWriter, repository: ServedRepository, follow: RepositorySpec
) -> None:
    """Nor does deleting it twice harm; a name that is none reaches no server."""
    edit = SetImage("web/a.yaml", "shop", "2")
    for name in ("ours", "theirs"):
        await writer.commit(follow, name, "main", [edit], ANN, "Bump")
    repository.commit({"b.txt": "1"}, branch="theirs")
    assert await writer.delete_branch(follow, "ours", ANN)
    assert await writer.delete_branch(follow, "ours", ANN)
    assert not await writer.delete_branch(follow, "theirs", ANN)
    assert repository.resolve("refs/heads/ours") is None
    assert repository.resolve("refs/heads/theirs") is not None
    with pytest.raises(Invalid):
        await writer.delete_branch(follow, "refs/heads/main", ANN)


@pytest.mark.parametrize("provider", list(Provider))
async def test_a_request_is_opened_once_and_seen_to_be_merged(
    mirror: GitMirror, host: Host, provider: Provider
) -> None:
    hosting = MergeRequestService(mirror.http, mirror.routes)
    follow = spec(f"{host.url}/team/shop.git", credentials=GitCredentials(password="t0ken"))
    first = await hosting.open_request(follow, provider, "bump", "main", "Bump", "Why")
    assert first == MergeRequest(1, "u/1", MergeRequestState.OPEN)
    assert await hosting.open_request(follow, provider, "bump", "main", "Bump") == first
    assert len(host.requests) == 1 and all("t0ken" in one for one in host.tokens)
    host.requests[0] |= {"state": "merged" if provider is Provider.GITLAB else "closed"}
    closed = await hosting.request(follow, provider, 1)
    assert closed.state in {MergeRequestState.CLOSED, MergeRequestState.MERGED}
    host.requests[0] |= {"merged_at": "2026-01-01", "merge_commit_sha": "1" * 40}
    merged = await hosting.request(follow, provider, 1)
    assert (merged.state, merged.merged) == (MergeRequestState.MERGED, "1" * 40)
    assert await hosting.close_request(follow, provider, 1) == merged


@pytest.mark.parametrize("provider", list(Provider))
async def test_a_request_that_is_superseded_is_closed_unmerged(
    mirror: GitMirror, host: Host, provider: Provider
) -> None:
    hosting = MergeRequestService(mirror.http, mirror.routes)
    follow = spec(f"{host.url}/team/shop.git", credentials=GitCredentials(password="t0ken"))
    await hosting.open_request(follow, provider, "bump", "main", "Bump")
    closed = await hosting.close_request(follow, provider, 1)
    assert closed == MergeRequest(1, "u/1", MergeRequestState.CLOSED)
    assert (await hosting.open_request(follow, provider, "bump", "main", "Bump")).number == 2


async def test_the_control_planes_port_writes_without_the_copies_that_are_read(
    tmp_path: Path, repository: ServedRepository, follow: RepositorySpec
) -> None:
    """Two at once, then a second commit on what the first has left."""
    side = build_write_service(GitCacheSettings(data_dir=tmp_path), SystemClock(), None)
    port = GitHostAdapter(side, lambda: [follow])

    async def bump(name: str) -> str | None:
        edits = [PutFile(f"{name}.yaml", b"n: 1\n")]
        return await port.commit(
            follow.id, edits, branch="main", base="main", author=ANN, message=f"Add {name}"
        )

    assert None not in await asyncio.gather(bump("a"), bump("b"))
    assert await bump("c") == repository.resolve("refs/heads/main")
    names = git(repository.path, "ls-tree", "--name-only", "main").split()
    assert {"a.yaml", "b.yaml", "c.yaml"} <= set(names)
    assert len(list((tmp_path / "written").glob("*.git"))) == 1
    with pytest.raises(Unavailable, match="not followed"):
        await port.request(RepositoryId("other"), 1)
    await side.close()


async def test_requests_need_a_token_and_a_known_host(mirror: GitMirror) -> None:
    hosting = MergeRequestService(mirror.http, mirror.routes)
    unknown = spec("https://git.test/team/shop.git")
    with pytest.raises(Invalid, match="GitHub, GitLab or Gitea"):
        await hosting.open_request(unknown, None, "b", "main", "t")
    with pytest.raises(Invalid, match="requires a token"):
        await hosting.open_request(
            replace(unknown, url="https://gitlab.test/a/b"), None, "b", "main", "t"
        )


@pytest.mark.parametrize("filters", [True, False])
async def test_commits_between_two_are_counted_without_their_files(
    mirror: GitMirror, repository: ServedRepository, follow: RepositorySpec, filters: bool
) -> None:
    """Clones have no history; a server that cannot leave out files sends nothing."""
    git(repository.path, "config", "uploadpack.allowFilter", str(filters).lower())
    base = git(repository.path, "rev-parse", "main")
    for number in range(3):
        repository.commit({"web/b.yaml": f"b: {number + 2}\n"})
    tip = git(repository.path, "rev-parse", "main")
    if not filters:
        with pytest.raises(Unavailable, match="no partial clones"):
            await mirror.history.count(follow, base, tip, seconds=20)
        return
    assert await mirror.history.count(follow, base, tip, seconds=20) == 3
    assert await mirror.history.count(follow, tip, tip, seconds=20) == 0
    assert await mirror.history.count(follow, tip, base, seconds=20) is None
    assert not list(mirror.clones.path(follow).parent.glob("tmp-*"))


async def test_a_longer_history_counts_as_the_limit(
    mirror: GitMirror, repository: ServedRepository, follow: RepositorySpec, tmp_path: Path
) -> None:
    git(repository.path, "config", "uploadpack.allowFilter", "true")
    shas = [git(repository.path, "rev-parse", "main")]
    for number in range(6):
        repository.commit({"web/b.yaml": f"b: {number + 2}\n"})
        shas.append(git(repository.path, "rev-parse", "main"))
    parts = (mirror.runner, mirror.git, mirror.lean, mirror.disk)
    counter = HistoryReader(tmp_path, *parts, max_commits=4)
    counts = [await counter.count(follow, base, shas[-1], seconds=20) for base in shas]
    assert counts == [4, 4, 4, 3, 2, 1, 0]
