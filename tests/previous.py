"""The version before this one, out of the repository's history.

No version was released yet: a commit stands for it until there is a tag.
"""

import subprocess
from pathlib import Path

import pytest

COMMIT = "96fd810a3dcfa5806b50e739c049b4f84692fb96"
SCHEMA = "0001"
_ROOT = Path(__file__).parents[1]


def text(path: str) -> str:
    """A file as it was."""
    return _git("show", f"{COMMIT}:{path}").decode()


def unpack(folder: Path, *paths: str) -> Path:
    """Put the files below some paths, by default all, into a new folder."""
    packed = _git("archive", COMMIT, *paths)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this clone is shallow: fetch the whole history with `git fetch --unshallow`")
    return done.stdout
