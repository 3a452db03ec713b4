"""Content and memos in files: sharded by digest, written atomically, verified on read."""

import asyncio
import contextlib
import errno
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import orjson
import structlog

from core.errors import Unavailable
from core.runtime.batcher import Batcher
from core.spec.bundle import digest_of
from core.spec.images import is_digest
from gitcache.domain.message_auth import MessageAuthenticator

log = structlog.get_logger(__name__)

_FULL = {errno.ENOSPC, errno.EDQUOT}
_AT_ONCE = 64

Item = TypeVar("Item")
Result = TypeVar("Result")


class _DiskQueue(Generic[Item, Result]):
    """Batches file operations per thread call: waking a thread costs more than a write."""

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self._work = work
        self._batches = Batcher(self._run_in_thread, max_weight=_AT_ONCE)

    async def run(self, item: Item) -> Result:
        """Processes one item. Raises Unavailable if the disk fails for it."""
        return await self._batches.submit(item)

    async def _run_in_thread(self, items: Sequence[Item]) -> list[Result | Unavailable]:
        return await asyncio.to_thread(lambda: [self._outcome(item) for item in items])

    def _outcome(self, item: Item) -> Result | Unavailable:
        try:
            return self._work(item)
        except Unavailable as error:
            return error


class FileContent:
    """Bundles in files, with a memory cache of `memory` bytes.

    Uses no fsync: a bundle that a crash left incomplete fails its digest on read, is dropped and
    rendered again. The time of a file is that of its last use outside of memory.
    """

    def __init__(self, root: Path, *, memory: int) -> None:
        self.root = root
        self._free_memory = memory
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._writing = _DiskQueue(_write_file)

    async def get(self, digest: str) -> bytes | None:
        """Implements `ContentStore.get`."""
        if not is_digest(digest):
            return None
        if (data := self._recent.get(digest)) is not None:
            self._recent.move_to_end(digest)
            return data
        data = await asyncio.to_thread(self._read_file, digest)
        if data is not None:
            self._remember(digest, data)
        return data

    async def put(self, digest: str, data: bytes) -> None:
        """Implements `ContentStore.put`."""
        if digest not in self._recent:
            await self._writing.run((_shard_path(self.root, digest), data))
            self._remember(digest, data)

    def in_memory(self) -> Collection[str]:
        """Returns the digests in memory: their files are in use, whatever their time."""
        return self._recent.keys()

    def _read_file(self, digest: str) -> bytes | None:
        path = _shard_path(self.root, digest)
        data = _read_file(path)
        if data is None or digest_of(data) == digest:
            return data
        log.warning("damaged content dropped", digest=digest)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return None

    def _remember(self, digest: str, data: bytes) -> None:
        if digest in self._recent:
            return
        self._recent[digest] = data
        self._free_memory -= len(data)
        while self._free_memory < 0 and self._recent:
            dropped, content = self._recent.popitem(last=False)
            self._free_memory += len(content)
            _mark_used(_shard_path(self.root, dropped))


class FileMemo:
    """Small JSON objects in files; treats an unreadable one as missing.

    Each carries an HMAC for its key, so that write access to the files is not enough to forge
    the bundle of some inputs.
    """

    def __init__(
        self, root: Path, authenticator: MessageAuthenticator, *, entries: int = 20_000
    ) -> None:
        self.root = root
        self._authenticator = authenticator
        self._entries = entries
        self._recent: OrderedDict[str, dict] = OrderedDict()
        self._loading = _DiskQueue(self._load)
        self._writing = _DiskQueue(_write_file)

    async def get(self, key: str) -> dict | None:
        """Implements `Memo.get`."""
        if (value := self._recent.get(key)) is not None:
            self._recent.move_to_end(key)
            return value
        value = await self._loading.run(key)
        if value is not None:
            self._remember(key, value)
        return value

    async def put(self, key: str, value: dict) -> None:
        """Implements `Memo.put`."""
        if self._recent.get(key) != value:
            signed = self._authenticator.sign(key, orjson.dumps(value))
            await self._writing.run((_shard_path(self.root, key), signed))
            self._remember(key, value)

    def in_memory(self) -> Collection[str]:
        """Returns the keys in memory, as `FileContent.in_memory`."""
        return self._recent.keys()

    def _load(self, key: str) -> dict | None:
        signed = _read_file(_shard_path(self.root, key)) or b""
        text = self._authenticator.verify(key, signed)
        return None if text is None else orjson.loads(text)

    def _remember(self, key: str, value: dict) -> None:
        self._recent[key] = value
        if len(self._recent) > self._entries:
            dropped, _ = self._recent.popitem(last=False)
            _mark_used(_shard_path(self.root, dropped))


def sweep(root: Path) -> None:
    """Removes incomplete files; requires that nobody writes."""
    for path in root.glob("*/*.tmp"):
        path.unlink(missing_ok=True)


def _shard_path(root: Path, digest: str) -> str:
    name = digest.removeprefix("sha256:")
    return f"{root}/{name[:2]}/{name[2:]}"


def _read_file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
        _mark_used(path)
        return data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable("cannot read the git cache's disk") from error


def _mark_used(path: str) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def _write_file(content: tuple[str, bytes]) -> None:
    path, data = content
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        _write_new_file(temporary, data)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        problem = "is full" if error.errno in _FULL else "cannot be written"
        raise Unavailable(f"cannot store bundles: the disk of the git cache {problem}") from error


def _write_new_file(path: str, data: bytes) -> None:
    try:
        file = open(path, "xb")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, "xb")
    with file:
        file.write(data)
