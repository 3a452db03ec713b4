"""Worker processes: started when needed, used one job at a time, killed alone when they overrun."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import uuid
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from fleet.bundle import MAX_BUNDLE_BYTES
from fleet.errors import Code, Invalid, Unavailable
from gitcache.ports import RenderJob, RenderResult
from gitcache.render import framing, tool

log = structlog.get_logger(__name__)

_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one job: wall and CPU time in seconds, memory and file sizes in bytes.

    `tool_memory` is address space, of which Go programs reserve far more than they use.
    """

    seconds: float
    memory: int
    tool_memory: int
    file_bytes: int
    jobs_per_worker: int


class WorkerPool:
    """At most `size` workers; a job waits for a free one."""

    def __init__(self, size: int, limits: Limits, scratch: Path) -> None:
        self._limits = limits
        self._scratch = scratch
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._tool: tuple[list[str], str] | None = None
        self._warned = False

    async def start(self) -> None:
        """Clear the scratch folder and have one worker ready."""
        await asyncio.to_thread(shutil.rmtree, self._scratch, True)
        self._scratch.mkdir(parents=True)
        self._idle.append(await self._new_worker())

    async def stop(self) -> None:
        """Kill all workers."""
        self._idle.clear()
        for worker in tuple(self._all):
            await self._discard(worker)

    async def tool(self) -> str:
        """As `Workers.tool`."""
        return (await self._find_tool())[1]

    async def render(self, job: RenderJob) -> RenderResult:
        """As `Workers.render`."""
        answer = await self._run("render", job)
        count, data = answer.fields.get("count"), answer.blobs.get("bundle")
        if not isinstance(count, int) or data is None:
            raise Unavailable("a render worker gave no result")
        return RenderResult(data, count)

    async def references(self, job: RenderJob) -> Sequence[str]:
        """As `Workers.references`."""
        answer = await self._run("references", job)
        return [str(path) for path in answer.fields.get("paths", [])]

    async def _run(self, verb: str, job: RenderJob) -> framing.Message:
        request = framing.encode(
            {
                "verb": verb,
                "renderer": job.renderer,
                "folder": job.folder,
                "root": job.root,
                "parameters": job.parameters,
                "command": await self._command(),
            },
            job.files,
        )
        async with self._free:
            worker = await self._take()
            kept = False
            try:
                answer = await worker.ask(request, self._limits.seconds)
                kept = worker.jobs < self._limits.jobs_per_worker
            finally:
                if kept:
                    self._idle.append(worker)
                else:
                    await self._discard(worker)
        _raise_told(answer)
        return answer

    async def _take(self) -> "_Worker":
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await self._discard(worker)
        return await self._new_worker()

    async def _new_worker(self) -> "_Worker":
        scratch = self._scratch / uuid.uuid4().hex
        try:
            scratch.mkdir()
        except OSError as error:
            raise Unavailable("the git cache's disk cannot be written") from error
        settings = {
            "memory": self._limits.memory,
            "toolMemory": self._limits.tool_memory,
            "fileBytes": self._limits.file_bytes,
            "seconds": self._limits.seconds,
            "scratch": str(scratch),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "gitcache.render.worker",
            orjson.dumps(settings).decode(),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=scratch,
            env=_environment(),
            start_new_session=True,
        )
        worker = _Worker(process, scratch)
        self._all.add(worker)
        try:
            hello = await worker.receive(_START_SECONDS)
        except BaseException:
            await self._discard(worker)
            raise
        self._note_isolation(bool(hello.fields.get("isolated")))
        return worker

    async def _discard(self, worker: "_Worker") -> None:
        self._all.discard(worker)
        await worker.kill()
        await asyncio.to_thread(shutil.rmtree, worker.scratch, True)

    def _note_isolation(self, isolated: bool) -> None:
        if not isolated and not self._warned:
            self._warned = True
            log.warning("render workers keep the network: namespaces are not permitted here")

    async def _command(self) -> list[str]:
        try:
            return (await self._find_tool())[0]
        except Unavailable:
            return []

    async def _find_tool(self) -> tuple[list[str], str]:
        if self._tool is None:
            command = tool.find_tool()
            version = tool.version_command(command)
            process = await asyncio.create_subprocess_exec(
                *version, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=_environment()
            )
            out, _ = await process.communicate()
            if process.returncode:
                raise Unavailable(f"`{' '.join(version)}` failed; kustomize cannot be used")
            self._tool = (command, f"{Path(command[0]).name} {out.decode(errors='replace')}")
        return self._tool


class _Worker:
    """One process and its scratch folder."""

    def __init__(self, process: Process, scratch: Path) -> None:
        self._process = process
        self.scratch = scratch
        self.jobs = 0

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    async def ask(self, request: bytes, seconds: float) -> framing.Message:
        """One job. Invalid: it took too long, or killed the worker."""
        self.jobs += 1
        writer = self._process.stdin
        if writer is None:
            raise Unavailable("a render worker is gone")
        try:
            # The tool has the same limit inside; the margin lets its message come through.
            async with asyncio.timeout(seconds + 2.0):
                writer.write(request)
                await writer.drain()
                return await self._read()
        except TimeoutError:
            raise _too_slow(seconds) from None
        except (EOFError, OSError, framing.BadMessage):
            await self.kill()
            if self._process.returncode == -signal.SIGXCPU:
                raise _too_slow(seconds) from None
            raise Invalid("rendering broke its limits of memory or size") from None

    async def receive(self, seconds: float) -> framing.Message:
        """The first message. Unavailable: the worker does not start."""
        try:
            async with asyncio.timeout(seconds):
                return await self._read()
        except (TimeoutError, EOFError, OSError, framing.BadMessage):
            raise Unavailable("a render worker does not start") from None

    async def kill(self) -> None:
        """End the process and all that it has started."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    async def _read(self) -> framing.Message:
        reader = self._process.stdout
        if reader is None:
            raise EOFError
        length = framing.header_length(await reader.readexactly(framing.LENGTH.size))
        fields, sizes = framing.parse_header(await reader.readexactly(length), MAX_BUNDLE_BYTES)
        return framing.Message(
            fields, {name: await reader.readexactly(size) for name, size in sizes}
        )


def _too_slow(seconds: float) -> Invalid:
    return Invalid(f"rendering did not finish in {seconds:g} s")


def _raise_told(answer: framing.Message) -> None:
    message = answer.fields.get("message")
    if message is None:
        return
    if answer.fields.get("code") == Code.INVALID:
        raise Invalid(str(message))
    raise Unavailable(str(message))


def _environment() -> dict[str, str]:
    """What a worker may know of the server's environment: where programs are."""
    kept = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return found | {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
