"""The git server serves real git clients, and misbehaves on request."""

import os
import subprocess
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from towline.demo.git_server import GitServer, ServedRepository

SMALL = {"web/deployment.yaml": "kind: Deployment\n", "README.md": "hello\n"}


@pytest.fixture
def shop(git_server: GitServer) -> ServedRepository:
    """A repository with one commit."""
    repository = git_server.create_repository("shop")
    repository.commit(SMALL)
    return repository


def git(*args: str, cwd: Path | None = None, check: bool = True) -> str:
    """What git prints, of both streams."""
    identity = {
        f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | identity | {"GIT_TERMINAL_PROMPT": "0"},
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_clone_holds_what_was_committed(shop: ServedRepository, tmp_path: Path) -> None:
    """All files, on the branch main."""
    git("clone", "--quiet", shop.url, str(tmp_path / "copy"))
    copy = tmp_path / "copy"
    assert {path: (copy / path).read_text() for path in SMALL} == SMALL
    assert git("branch", "--show-current", cwd=copy).strip() == "main"


def test_a_commit_changes_only_what_it_names(shop: ServedRepository, tmp_path: Path) -> None:
    """None removes a file; names may hold what is hard to quote; content may be bytes."""
    hard = 'a "quoted"\\name\nwith ü.bin'
    sha = shop.commit({"README.md": None, hard: b"\0\xff"}, "Second")
    git("clone", "--quiet", shop.url, str(tmp_path / "copy"))
    copy = tmp_path / "copy"
    assert git("log", "-1", "--format=%H %s", cwd=copy).strip() == f"{sha} Second"
    assert (copy / hard).read_bytes() == b"\0\xff"
    assert not (copy / "README.md").exists()
    assert (copy / "web" / "deployment.yaml").exists()


def test_branches_and_tags_come_and_go(shop: ServedRepository) -> None:
    """Refs are listed as they stand."""
    first = shop.resolve("refs/heads/main")
    assert first is not None
    second = shop.commit({"a": "b"}, branch="next")
    shop.point("refs/tags/v1", first)
    assert git("ls-remote", shop.url, "v1", "next").split() == [
        second, "refs/heads/next", first, "refs/tags/v1",
    ]  # fmt: skip
    shop.delete("refs/heads/next")
    assert shop.resolve("refs/heads/next") is None
    assert "next" not in git("ls-remote", shop.url)


def test_a_large_push_arrives(shop: ServedRepository, tmp_path: Path) -> None:
    """Larger than what git sends in one piece, so its body comes chunked."""
    copy = tmp_path / "copy"
    git("clone", "--quiet", shop.url, str(copy))
    (copy / "large").write_bytes(os.urandom(3 << 20))
    git("add", ".", cwd=copy)
    git("commit", "--quiet", "--message=Large", cwd=copy)
    git("push", "--quiet", cwd=copy)
    assert shop.resolve("refs/heads/main") == git("rev-parse", "HEAD", cwd=copy).strip()


def test_shallow_and_partial_clones_work(shop: ServedRepository, tmp_path: Path) -> None:
    """What a git cache asks for: one commit, no blobs."""
    shop.commit({"README.md": "second\n"})
    options = ["--quiet", "--bare", "--depth=1", "--filter=blob:none"]
    git("clone", *options, shop.url, str(tmp_path / "copy"))
    assert git("rev-list", "--count", "--all", cwd=tmp_path / "copy").strip() == "1"


def test_a_private_repository_asks_who_it_is(git_server: GitServer) -> None:
    """Without and with wrong credentials it is closed; others stay open."""
    private = git_server.create_repository("private", username="reader", password="secret")
    private.commit(SMALL)
    open_one = git_server.create_repository("open")
    assert "could not read Username" in git("ls-remote", private.url, check=False)
    wrong = private.url.replace("://", "://reader:guess@")
    assert "Authentication failed" in git("ls-remote", wrong, check=False)
    right = private.url.replace("://", "://reader:secret@")
    assert "refs/heads/main" in git("ls-remote", right)
    assert git("ls-remote", open_one.url) == ""


def test_requests_are_noted(git_server: GitServer, shop: ServedRepository) -> None:
    """A test can count what a poll costs."""
    git("-c", "protocol.version=2", "ls-remote", shop.url)
    assert list(git_server.requests) == [
        "/shop.git/info/refs?service=git-upload-pack",
        "/shop.git/git-upload-pack",
    ]


def test_a_stopped_server_comes_back_with_its_repositories(
    git_server: GitServer, shop: ServedRepository
) -> None:
    """On the same port."""
    git_server.stop()
    assert "Failed to connect" in git("ls-remote", shop.url, check=False)
    git_server.start()
    assert "refs/heads/main" in git("ls-remote", shop.url)


def test_a_failing_server_says_so(git_server: GitServer, shop: ServedRepository) -> None:
    """With the status that is asked for."""
    git_server.fail = HTTPStatus.SERVICE_UNAVAILABLE
    assert "503" in git("ls-remote", shop.url, check=False)
    git_server.fail = None
    assert "refs/heads/main" in git("ls-remote", shop.url)


def test_a_paused_server_lets_clients_wait(git_server: GitServer, shop: ServedRepository) -> None:
    """Until it goes on."""
    git_server.pause()
    with subprocess.Popen(["git", "ls-remote", shop.url], stdout=subprocess.PIPE) as client:
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(timeout=0.5)
        git_server.resume()
        assert client.wait(timeout=20) == 0


def test_a_slow_server_takes_its_time(git_server: GitServer, shop: ServedRepository) -> None:
    """Each answer is late by the delay."""
    git_server.delay = 0.3
    started = time.monotonic()
    git("ls-remote", shop.url)
    assert time.monotonic() - started >= 0.3


def test_repositories_of_a_given_folder_stay(tmp_path: Path) -> None:
    """A second server on the same folder serves what the first has left."""
    with GitServer(tmp_path) as first:
        sha = first.create_repository("kept").commit(SMALL)
    with GitServer(tmp_path) as second:
        assert second.create_repository("kept").resolve("refs/heads/main") == sha
