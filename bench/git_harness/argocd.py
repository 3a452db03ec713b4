"""Reproduces the work of Argo CD's repository server for a commit with git and Python.

Follows reposerver/repository of Argo CD 3: list refs, fetch heads and tags, force a checkout, check
every file for symlinks out of the work tree, read the folder. It favours Argo CD: no gRPC, no
queue, no Redis, and the folder is archived instead of rendered.
"""

import os
import subprocess
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path


class ArgoCheckout:
    """Work tree with full history, as each Argo CD replica has it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._url = url
        folder.mkdir(parents=True)
        self._git("init", "--quiet")
        self._git("remote", "add", "origin", url)

    def artefact(self, folder: str) -> bytes:
        """Checks out the newest commit of main, and archives one folder."""
        return self.artefacts([folder])[0]

    def artefacts(self, folders: Sequence[str]) -> list[bytes]:
        """Checks out once, and archives many folders."""
        sha = self._git("ls-remote", self._url, "refs/heads/main").split()[0]
        self._git("fetch", "--quiet", "origin", "--tags", "--force", "--prune")
        self._git("checkout", "--quiet", "--force", sha)
        for place, names, files in os.walk(self.folder):
            for name in (*names, *files):
                os.lstat(os.path.join(place, name))
        return [self._packed(folder) for folder in folders]

    def _packed(self, folder: str) -> bytes:
        output = BytesIO()
        with tarfile.open(fileobj=output, mode="w:gz") as archive:
            archive.add(self.folder / folder, folder)
        return output.getvalue()

    def size(self) -> int:
        """Size on disk in bytes."""
        return disk(self.folder)

    def _git(self, *args: str) -> str:
        command = ["git", "-C", str(self.folder), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def disk(folder: Path) -> int:
    """Size of a folder on disk in bytes, in whole blocks."""
    paths = (os.path.join(at, file) for at, _, files in os.walk(folder) for file in files)
    return sum(os.lstat(path).st_blocks * 512 for path in paths)
