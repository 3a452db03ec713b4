"""Bundles as files named by their digest.
A file is written under a temporary name and renamed, so that a killed process leaves only complete
files. It is not flushed: every load checks the digest, and a file damaged by a power cut is fetched
again.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from core.errors import Invalid, NotFound, Unavailable
from core.spec.bundle import open_bundle

_PARTIAL = ".part"
# For smaller files, a thread would cost more than the write.
_SMALL_BYTES = 64 << 10


class BundleFiles:
    """Implements `ports.BundleStore`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checked: set[str] = set()
        self._writes = itertools.count()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for leftover in folder.glob(f"*{_PARTIAL}"):
                leftover.unlink()
        except OSError as error:
            raise _refused(error) from error

    def has(self, digest: str) -> bool:
        return digest in self._checked or self._path(digest).exists()

    async def load(self, digest: str) -> bytes:
        return await asyncio.to_thread(self._read, digest)

    async def save(self, digest: str, data: bytes) -> None:
        if len(data) <= _SMALL_BYTES:
            self._write(digest, data)
        else:
            await asyncio.to_thread(self._write, digest, data)

    def part(self, digest: str, offset: int, length: int) -> bytes:
        try:
            descriptor = os.open(self._path(digest), os.O_RDONLY)
        except OSError as error:
            raise NotFound(f"bundle {digest} is not on disk") from error
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def keep_only(self, digests: Iterable[str]) -> None:
        wanted = {self._path(digest).name for digest in digests}
        for path in self._folder.iterdir():
            if path.name not in wanted and path.suffix != _PARTIAL:
                path.unlink(missing_ok=True)
                self._checked.discard(f"sha256:{path.name}")

    def _read(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            data = path.read_bytes()
            open_bundle(digest, data)
        except OSError as error:
            raise NotFound(f"bundle {digest} is not on disk") from error
        except Invalid as error:
            path.unlink(missing_ok=True)
            self._checked.discard(digest)
            raise NotFound(f"bundle {digest} was damaged on disk") from error
        self._checked.add(digest)
        return data

    def _write(self, digest: str, data: bytes) -> None:
        open_bundle(digest, data)
        path = self._path(digest)
        partial = path.with_name(f"{path.name}.{next(self._writes)}{_PARTIAL}")
        try:
            partial.write_bytes(data)
            partial.rename(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise _refused(error) from error
        self._checked.add(digest)

    def _path(self, digest: str) -> Path:
        kind, _, name = digest.partition(":")
        if kind != "sha256" or len(name) != 64 or not name.isalnum():
            raise Invalid(f"{digest!r} is not the digest of a bundle")
        return self._folder / name


def _refused(error: OSError) -> Unavailable:
    return Unavailable(f"the agent's state directory cannot be written: {error.strerror}")
