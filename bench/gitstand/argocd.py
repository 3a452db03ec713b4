"""What Argo CD's repository server does for a commit, re-enacted with git and Python.

After reposerver/repository of Argo CD 3: list the refs, fetch heads and tags, check out by force,
look at every file of the work tree for links that lead out of it, read the folder. It is generous:
no gRPC, no queue, no Redis, and the folder is only packed, not rendered.
"""

import os
import subprocess
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path


class ArgoCheckout:
    """A work tree with full history, as each of its replicas has one."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._url = url
        folder.mkdir(parents=True)
        self._git("init", "--quiet")
        self._git("remote", "add", "origin", url)

    def artefact(self, folder: str) -> bytes:
        """The newest commit of main, and one folder of it as an archive."""
        return self.artefacts([folder])[0]

    def artefacts(self, folders: Sequence[str]) -> list[bytes]:
        """The same of many folders; what is done for a commit is done once for all of them."""
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
        """Bytes on disk."""
        return disk(self.folder)

    def _git(self, *args: str) -> str:
        command = ["git", "-C", str(self.folder), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def disk(folder: Path) -> int:
    """Bytes that a folder takes on disk, in whole blocks."""
    paths = (os.path.join(at, file) for at, _, files in os.walk(folder) for file in files)
    return sum(os.lstat(path).st_blocks * 512 for path in paths)
