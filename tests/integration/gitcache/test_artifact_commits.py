"""Commits of artifacts are those that git itself makes from the same files."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcache.domain.artifacts import CommitText
from gitcache.domain.trees import SYMLINK
from gitcache.render.unpack.commit import build_commit
from gitcache.render.unpack.layers import EXECUTABLE, FILE, CommittedFile

TEXT = CommitText("reg.example.org:5000", "1.2 é@sha256:" + "a" * 64, 1770091506)
NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "A", "ü", "x y", "kustomization.yaml"])
FILES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.builds(CommittedFile, st.sampled_from([FILE, EXECUTABLE, SYMLINK]), st.binary(max_size=40)),
    max_size=12,
)


class Git:
    """A bare repository with SHA-256 ids, without the settings of this machine."""

    def __init__(self, folder: Path) -> None:
        self._environment = os.environ | {
            "GIT_DIR": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(folder),
        }
        self("init", "--quiet", "--bare", "--object-format=sha256", str(folder))

    def __call__(self, *arguments: str, data: bytes = b"", **more: str) -> str:
        environment = self._environment | more
        done = subprocess.run(
            ["git", *arguments], input=data, capture_output=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def commit(self, files: Mapping[str, CommittedFile], text: CommitText) -> str:
        """The commit that git itself makes."""
        lines = []
        for path, file in files.items():
            sha = self("hash-object", "-w", "--stdin", data=file.data)
            lines.append(f"{file.mode:o} {sha}\t{path}\0")
        self("read-tree", "--empty")
        self("update-index", "-z", "--index-info", data="".join(lines).encode())
        tree = self("write-tree")
        people = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (
                ("NAME", text.author),
                ("EMAIL", text.author),
                ("DATE", f"{text.seconds} +0000"),
            )
        }
        return self("commit-tree", tree, data=f"{text.subject}\n".encode(), **people)


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("git") / "repository")


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(FILES)
def test_git_makes_the_same_commit_and_accepts_the_pack(
    git: Git, files: dict[str, CommittedFile]
) -> None:
    folders = {path.rpartition("/")[0] for path in files}
    kept = {
        path: file
        for path, file in files.items()
        if not any(folder == path or folder.startswith(f"{path}/") for folder in folders)
    }
    built = build_commit(kept, TEXT)
    assert built.sha == git.commit(kept, TEXT)
    git("index-pack", "--strict", "--fsck-objects", "--stdin", data=built.pack)
    git("fsck", "--strict", "--no-dangling", built.sha)


def test_large_files_have_the_id_of_git(git: Git) -> None:
    files = {
        f"f{size}": CommittedFile(FILE, b"x" * size) for size in (0, 15, 16, 2047, 2048, 1 << 20)
    }
    built = build_commit(files, TEXT)
    assert built.sha == git.commit(files, TEXT)
    git("index-pack", "--strict", "--fsck-objects", "--stdin", data=built.pack)
    assert git("cat-file", "-s", f"{built.sha}:f2048") == "2048"


def test_the_order_of_files_does_not_matter() -> None:
    files = {name: CommittedFile(FILE, name.encode()) for name in ("b", "a/c", "a.b", "a/a")}
    again = dict(reversed(files.items()))
    assert build_commit(files, TEXT).sha == build_commit(again, TEXT).sha
