"""Following real repositories on a real git server."""

import asyncio
from http import HTTPStatus
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import GitCredentials, RenderRequest, RepositoryState
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.hostile import git
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec, until
from towline.demo.git_server import GitServer


def read_text(path: Path) -> str:
    """A file's bytes as text; empty for what is no file."""
    return path.read_bytes().decode("latin-1") if path.is_file() else ""


FILES = {"web/a.yaml": config_map("a"), "api/a.yaml": config_map("b")}


async def test_commits_force_pushes_tags_and_deleted_branches(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    first = repository.commit(FILES, "First")
    cache.follow(spec(repository.url, "main", "v1", "gone"))
    state = await at_commit(cache, first)
    assert state.commits["main"].subject == "First"
    assert state.missing == {"v1", "gone"} and state.error is None
    git(repository.path, "tag", "-a", "v1", "-m", "Release", first)
    await at_commit(cache, first, "v1")
    file = git(repository.path, "hash-object", "-w", "--stdin", stdin=b"no commit")
    repository.point("refs/tags/gone", file)
    second = repository.commit({"web/a.yaml": config_map("a", "2")})
    await at_commit(cache, second)
    repository.point("refs/heads/main", first)
    await at_commit(cache, first)
    repository.delete("refs/heads/main")
    state = await until(cache, lambda state: "main" in state.missing)
    assert "main" not in state.commits and state.commits["v1"].sha == first


async def polled(git_server: GitServer, times: int) -> None:
    """Wait until the server has been asked so many times from now on."""
    git_server.requests.clear()
    async with asyncio.timeout(60):
        while len(git_server.requests) < times:
            await asyncio.sleep(0.01)


async def test_a_poll_without_news_is_one_request(git_server: GitServer, stand: Stand) -> None:
    cache = await stand.start(poll=0.05)
    repository = git_server.create_repository("shop")
    cache.follow(spec(repository.url))
    await at_commit(cache, repository.commit(FILES))
    await polled(git_server, 2)
    await polled(git_server, 4)
    assert set(git_server.requests) == {"/shop.git/git-upload-pack"}


async def test_only_changed_folders_get_another_key(git_server: GitServer, cache: GitCache) -> None:
    repository = git_server.create_repository("shop")
    first = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, first)
    second = repository.commit({"web/a.yaml": config_map("a", "2")})
    await at_commit(cache, second)
    folders = ["", "web", "api", "nope", "../x"]
    before = await cache.trees(REPOSITORY, first, folders)
    after = await cache.trees(REPOSITORY, second, folders)
    assert before["api"] == after["api"] and before["web"] != after["web"]
    assert before["nope"] is None and before["../x"] is None and before[""] is not None


async def test_a_webhook_is_faster_than_the_poll(git_server: GitServer, stand: Stand) -> None:
    cache = await stand.start(poll=3600)
    repository = git_server.create_repository("shop")
    cache.follow(spec(repository.url))
    await at_commit(cache, repository.commit(FILES))
    sha = repository.commit({"web/a.yaml": config_map("a", "2")})
    await cache.request_poll(REPOSITORY, {"refs/heads/main": sha})
    await at_commit(cache, sha)


async def test_a_webhook_that_comes_before_the_commit_is_asked_for_again(
    git_server: GitServer, stand: Stand
) -> None:
    cache = await stand.start(poll=3600)
    repository = git_server.create_repository("shop")
    first = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, first)
    second = repository.commit({"web/a.yaml": config_map("a", "2")})
    repository.point("refs/heads/main", first)
    await cache.request_poll(REPOSITORY, {"refs/heads/main": second})
    await asyncio.sleep(0.05)
    repository.point("refs/heads/main", second)
    await at_commit(cache, second)


async def test_states_are_published_only_on_change(git_server: GitServer, stand: Stand) -> None:
    cache = await stand.start(poll=0.05)
    states: list[RepositoryState] = []
    cache.on_state(states.append)
    repository = git_server.create_repository("shop")
    cache.follow(spec(repository.url))
    await at_commit(cache, repository.commit(FILES))
    await polled(git_server, 3)
    states.clear()
    await polled(git_server, 4)
    assert states == []


@pytest.mark.parametrize("status", [HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.NOT_FOUND])
async def test_a_failing_server_is_named_and_the_last_good_state_stays(
    git_server: GitServer, cache: GitCache, status: HTTPStatus
) -> None:
    repository = git_server.create_repository("shop")
    sha = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    git_server.fail = status
    state = await until(cache, lambda state: state.error)
    assert state.commits["main"].sha == sha and state.missing == frozenset()
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "web"))
    assert rendered.count == 1
    git_server.fail = None
    await cache.request_poll(REPOSITORY)
    await until(cache, lambda state: state.error is None)


async def test_after_a_restart_everything_known_works_without_the_server(
    git_server: GitServer, stand: Stand
) -> None:
    repository = git_server.create_repository("shop")
    sha = repository.commit(FILES)
    first = await stand.start()
    first.follow(spec(repository.url))
    await at_commit(first, sha)
    rendered = await first.render(RenderRequest(REPOSITORY, sha, "web"))
    await stand.stop(first)
    git_server.stop()
    second = await stand.start()
    second.follow(spec(repository.url))
    state = await until(second, lambda state: state.error)
    assert "cannot be reached" in (state.error or "")
    assert state.commits["main"].sha == sha
    again = await second.render(RenderRequest(REPOSITORY, sha, "web"))
    assert again.cached and again.digest == rendered.digest
    assert (await second.render(RenderRequest(REPOSITORY, sha, "api"))).count == 1


async def test_a_server_that_never_answers_does_not_hold_up_others(
    git_server: GitServer, cache: GitCache
) -> None:
    with GitServer() as stuck:
        stuck.pause()
        for number in range(20):
            url = stuck.create_repository(f"s{number}").url
            cache.follow(spec(url, repository_id=f"s{number}"))
        await asyncio.sleep(0.2)
        repository = git_server.create_repository("shop")
        sha = repository.commit(FILES)
        cache.follow(spec(repository.url))
        await at_commit(cache, sha)
        stuck.resume()


async def test_a_private_repository_needs_its_password_and_never_tells_it(
    git_server: GitServer, cache: GitCache, stand: Stand, capfd: pytest.CaptureFixture[str]
) -> None:
    """A canary password: in no state, log, message, file or command line."""
    canary = "canary-5be1-credential"
    repository = git_server.create_repository("shop", password=canary)
    sha = repository.commit(FILES)
    wrong = GitCredentials(password="wrong-" + canary)
    cache.follow(spec(repository.url, credentials=wrong))
    state = await until(cache, lambda state: state.error)
    assert "refused the credentials" in (state.error or "")
    cache.follow(spec(repository.url, credentials=GitCredentials(password=canary)))
    state = await at_commit(cache, sha)
    assert not [path for path in stand.folder.rglob("*") if canary in read_text(path)]
    out, err = capfd.readouterr()
    assert canary not in out + err + repr(state)


async def test_a_commit_that_no_ref_points_to_is_fetched_when_asked_for(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    old = repository.commit(FILES)
    new = repository.commit({"web/a.yaml": config_map("a", "2")})
    cache.follow(spec(repository.url))
    await at_commit(cache, new)
    rendered = await cache.render(RenderRequest(REPOSITORY, old, "web"))
    assert b'"v":"1"' in await cache.bundle(rendered.digest)


async def test_a_damaged_clone_is_made_anew(
    git_server: GitServer, cache: GitCache, stand: Stand
) -> None:
    repository = git_server.create_repository("shop")
    cache.follow(spec(repository.url))
    await at_commit(cache, repository.commit(FILES))
    for path in stand.folder.glob("repositories/*.git/HEAD"):
        path.write_bytes(b"\0\0")
    sha = repository.commit({"web/a.yaml": config_map("a", "2")})
    await at_commit(cache, sha)
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).count == 1


async def test_locks_of_a_killed_process_are_swept(git_server: GitServer, stand: Stand) -> None:
    repository = git_server.create_repository("shop")
    first = await stand.start()
    first.follow(spec(repository.url))
    await at_commit(first, repository.commit(FILES))
    await stand.stop(first)
    (clone,) = stand.folder.glob("repositories/*.git")
    (clone / "shallow.lock").touch()
    (clone / "objects" / "pack" / "tmp_pack_x").touch()
    leftover = stand.folder / "repositories" / "tmp-1"
    leftover.mkdir()
    sha = repository.commit({"web/a.yaml": config_map("a", "2")})
    second = await stand.start()
    second.follow(spec(repository.url))
    await at_commit(second, sha)
    assert not leftover.exists() and not (clone / "shallow.lock").exists()


async def test_a_repository_with_sha256_names_is_followed(
    git_server: GitServer, cache: GitCache
) -> None:
    path = git_server.folder / "shop256.git"
    git(git_server.folder, "init", "--bare", "--object-format=sha256", str(path))
    plain = git_server.create_repository("shop256")
    sha = plain.commit(FILES)
    assert len(sha) == 64
    cache.follow(spec(plain.url))
    await at_commit(cache, sha)
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).count == 1


async def test_a_forgotten_repository_is_asked_no_more(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    cache.follow(spec(repository.url))
    await at_commit(cache, repository.commit(FILES))
    cache.forget(REPOSITORY)
    for _ in range(60):
        git_server.requests.clear()
        await asyncio.sleep(0.5)
        if not git_server.requests:
            break
    assert not git_server.requests
    assert cache.state(REPOSITORY) is None


async def test_two_tenants_with_one_url_share_nothing(
    git_server: GitServer, cache: GitCache
) -> None:
    """A tenant without a password must not read content fetched with another's password."""
    repository = git_server.create_repository("shop", password="pw")
    sha = repository.commit(FILES)
    cache.follow(
        spec(repository.url, repository_id="theirs", credentials=GitCredentials(password="pw"))
    )
    await until(cache, lambda state: state.commits, repository_id="theirs")
    cache.follow(spec(repository.url, repository_id="mine"))
    state = await until(cache, lambda state: state.error, repository_id="mine")
    assert not state.commits
    with pytest.raises(Unavailable):
        await cache.render(RenderRequest(RepositoryId("mine"), sha, "web"))


async def test_stopping_does_not_wait_for_a_server_that_hangs(
    git_server: GitServer, stand: Stand
) -> None:
    cache = await stand.start(request_seconds=600)
    repository = git_server.create_repository("shop")
    repository.commit(FILES)
    git_server.pause()
    cache.follow(spec(repository.url))
    await polled(git_server, 1)
    async with asyncio.timeout(60):
        await stand.stop(cache)
    git_server.resume()


@pytest.mark.parametrize(
    "url", ["file:///etc", "ext::sh -c id", "http://169.254.169.254/x.git", "-oProxyCommand=id"]
)
async def test_hostile_urls_show_as_an_error(cache: GitCache, url: str) -> None:
    cache.follow(spec(url))
    state = await until(cache, lambda state: state.error)
    assert "not allowed" in (state.error or "")
