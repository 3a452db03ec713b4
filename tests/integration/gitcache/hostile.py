"""Commits that no honest tool would make."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from towline.demo.git_server import ServedRepository

SYMLINK = "120000"


def git(path: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git in a bare repository; its output."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=path,
        input=stdin,
        capture_output=True,
        check=True,
        env={
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "Eve",
            "GIT_AUTHOR_EMAIL": "eve@test",
            "GIT_COMMITTER_NAME": "Eve",
            "GIT_COMMITTER_EMAIL": "eve@test",
        },
    )
    return done.stdout.decode().strip()


def blob(repository: ServedRepository, data: bytes) -> str:
    """Store a blob; its id."""
    return git(repository.path, "hash-object", "-w", "--stdin", stdin=data)


def tree(repository: ServedRepository, *entries: tuple[str, str, str]) -> str:
    """Store a tree of (mode, name, id) as it is, however forbidden; its id."""
    raw = b"".join(
        b"%b %b\0%b" % (mode.lstrip("0").encode(), name.encode(), bytes.fromhex(one))
        for mode, name, one in entries
    )
    return git(
        repository.path, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw
    )


def commit(repository: ServedRepository, root: str, branch: str = "main") -> str:
    """Commit a root tree and let the branch point at it; the sha."""
    sha = git(repository.path, "commit-tree", root, "-m", "Evil")
    repository.point(f"refs/heads/{branch}", sha)
    return sha


def commit_links(repository: ServedRepository, links: Mapping[str, str]) -> str:
    """Commit symbolic links, by their paths, upon the branch main; the sha."""
    lines = [b"commit refs/heads/main\ncommitter Eve <eve@test> 1 +0000\ndata 4\nEvil"]
    lines.append(f"from {repository.resolve('refs/heads/main')}".encode())
    for path, target in links.items():
        lines.append(f"M {SYMLINK} inline {path}\ndata {len(target.encode())}\n{target}".encode())
    git(repository.path, "fast-import", "--quiet", "--force", stdin=b"\n".join(lines) + b"\n")
    return repository.resolve("refs/heads/main") or ""


def commit_folder(repository: ServedRepository, files: dict[str, tuple[str, bytes]]) -> str:
    """Commit a root with one folder `web` of files (name to mode and content); the sha."""
    entries = [(mode, name, blob(repository, data)) for name, (mode, data) in sorted(files.items())]
    web = tree(repository, *entries)
    return commit(repository, tree(repository, ("40000", "web", web)))
