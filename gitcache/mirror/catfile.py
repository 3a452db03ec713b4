"""Long-lived `git cat-file --batch-command` processes, one per clone."""

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import Unavailable
from core.runtime.batcher import Batcher
from core.runtime.process import wait_for_end
from gitcache.mirror.transport.git_environment import environment

_MAX_BATCH = 400
_SECONDS = 60.0

Question = tuple[str, str]
"""`info` or `contents`, and an object's id."""


@dataclass(frozen=True, slots=True)
class Info:
    """Type (`commit`, `tree`, `blob`, `tag`) and size in bytes of an object."""

    kind: str
    size: int


Answer = tuple[Info | None, bytes]


class CatFile:
    """Reads objects of a clone by id; batches concurrent readers.

    Raises Unavailable if the process ends or its output is malformed; the next read starts a
    new process.
    """

    def __init__(self, clone: Path) -> None:
        self._clone = clone
        self._process: Process | None = None
        self._inode = 0
        self._batches = Batcher(self._query, max_weight=_MAX_BATCH)

    async def infos(self, ids: Sequence[str]) -> list[Info | None]:
        """Returns type and size of each object, None for missing objects."""
        answers = await self._batches.submit_all([("info", object_id) for object_id in ids])
        return [info for info, _ in answers]

    async def contents(self, ids: Sequence[str]) -> list[bytes]:
        """Returns the bytes of each object; check first with `infos` that they exist."""
        answers = await self._batches.submit_all([("contents", object_id) for object_id in ids])
        if any(info is None for info, _ in answers):
            raise Unavailable("the local copy of the repository changed while it was read")
        return [data for _, data in answers]

    async def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await wait_for_end(process)

    async def _query(self, questions: Sequence[Question]) -> list[Answer]:
        distinct = list(dict.fromkeys(questions))
        try:
            async with asyncio.timeout(_SECONDS):
                process = await self._running_process()
                answers: dict[Question, Answer] = {}
                for start in range(0, len(distinct), _MAX_BATCH):
                    answers |= await _exchange(process, distinct[start : start + _MAX_BATCH])
                return [answers[question] for question in questions]
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            await self.close()
            raise Unavailable("cannot read the local copy of the repository") from error
        except BaseException:
            # A cancelled read leaves unread answers in the pipe.
            await self.close()
            raise

    async def _running_process(self) -> Process:
        inode = self._clone.stat().st_ino
        if self._process is not None and self._process.returncode is None:
            if inode == self._inode:
                return self._process
            await self.close()
        self._inode = inode
        self._process = await asyncio.create_subprocess_exec(
            "git",
            f"--git-dir={self._clone}",
            "cat-file",
            "--batch-command",
            "--buffer",
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment(self._clone.parent),
            start_new_session=True,
        )
        return self._process


class OpenClones:
    """Clones that are open for reading: those in use, and idle ones up to `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[Path, CatFile] = OrderedDict()
        self._users: Counter[CatFile] = Counter()

    @asynccontextmanager
    async def open_reader(self, clone: Path) -> AsyncGenerator[CatFile]:
        """Provides the reader of a clone, which stays open at least as long as it is in use."""
        if (objects := self._open.get(clone)) is None:
            objects = self._open[clone] = CatFile(clone)
        self._open.move_to_end(clone)
        self._users[objects] += 1
        try:
            yield objects
        finally:
            self._users[objects] -= 1
            if not self._users[objects]:
                del self._users[objects]
            await self._close_surplus(clone, objects)

    async def close(self, clone: Path) -> None:
        """Closes one clone, now or after its last use."""
        objects = self._open.pop(clone, None)
        if objects is not None and objects not in self._users:
            await objects.close()

    async def close_all(self) -> None:
        """Ends all processes; requires that no reader is in use."""
        while self._open:
            _, objects = self._open.popitem()
            await objects.close()

    async def _close_surplus(self, clone: Path, used: CatFile) -> None:
        if len(self._open) <= self._limit and self._open.get(clone) is used:
            return
        # Remove all entries before the first await, during which other tasks change the table.
        idle = [path for path, reader in self._open.items() if reader not in self._users]
        surplus = [self._open.pop(path) for path in idle[: max(0, len(self._open) - self._limit)]]
        if self._open.get(clone) is not used and used not in self._users:
            surplus.append(used)
        for objects in surplus:
            await objects.close()


async def _exchange(process: Process, questions: Sequence[Question]) -> dict[Question, Answer]:
    """Requests some objects, few enough that neither pipe fills up while both sides write."""
    reader, writer = process.stdout, process.stdin
    if reader is None or writer is None:
        raise EOFError
    writer.write(
        "".join(f"{command} {object_id}\n" for command, object_id in questions).encode()
        + b"flush\n"
    )
    await writer.drain()
    answers: dict[Question, Answer] = {}
    for command, object_id in questions:
        fields = (await reader.readuntil(b"\n")).decode().split()
        if fields[0] != object_id:
            raise ValueError("answers out of step")
        info = Info(fields[1], int(fields[2])) if len(fields) == 3 else None
        data = b""
        if info and command == "contents":
            data = (await reader.readexactly(info.size + 1))[:-1]
        answers[command, object_id] = info, data
    return answers
