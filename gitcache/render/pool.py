"""A pool of worker processes, started on demand, each with one job at a time.

A worker that exceeds its limits is killed alone. If something else kills it, for example the
kernel's OOM killer, another worker retries its job once.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import uuid
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import structlog

from core.errors import Code, Invalid, Unavailable
from core.json_object import JsonObject
from core.runtime.process import wait_for_end
from core.spec.bundle import MAX_BUNDLE_BYTES
from gitcache.domain.artifacts import ArtifactContent, BuiltCommit, CommitText
from gitcache.domain.references import ChartRef, References
from gitcache.domain.renders import ChartVersion, RenderInputError, RenderJob, RenderResult
from gitcache.render import framing
from gitcache.render.renderers import renderer_named
from gitcache.render.sandbox import can_user_read
from gitcache.render.scratch_location import reachable_scratch
from gitcache.render.tools import RenderTools

log = structlog.get_logger(__name__)

_START_SECONDS = 60.0
_END_SECONDS = 10.0
_NOBODY = 65534
_KILLED_STATUSES = {-signal.SIGKILL, -signal.SIGBUS}
_ALL_PARAMETERS = [[]]


class _WorkerKilled(Exception):
    """A worker was killed by another process or the kernel."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of one job: wall and CPU time in seconds, memory and file sizes in bytes.

    `tool_memory` is address space; Go programs reserve far more of it than they use.
    """

    seconds: float
    memory: int
    tool_memory: int
    file_bytes: int
    jobs_per_worker: int


class WorkerPool:
    """At most `size` workers; a job waits for a free one. `tools` finds external tools."""

    def __init__(
        self, size: int, limits: JobLimits, scratch: Path, tools: RenderTools | None = None
    ) -> None:
        self._limits = limits
        self._scratch = scratch
        self._slots = asyncio.Semaphore(size)
        self._idle_workers: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._tools = tools or RenderTools()
        self._has_logged_isolation = False

    async def start(self) -> None:
        """Clears the scratch folder and starts one worker."""
        if os.geteuid() == 0 and can_user_read(_NOBODY):
            self._scratch = reachable_scratch(self._scratch)
        await asyncio.to_thread(shutil.rmtree, self._scratch, True)
        self._scratch.mkdir(parents=True)
        self._scratch.chmod(0o755)
        self._idle_workers.append(await self._new_worker())

    async def stop(self) -> None:
        """Kills all workers."""
        self._idle_workers.clear()
        for worker in tuple(self._workers):
            await self._discard(worker)
        await asyncio.to_thread(shutil.rmtree, self._scratch, True)

    async def tool_version(self, renderer: str) -> str:
        """Implements `RenderWorkers.tool_version`."""
        tool = renderer_named(renderer).tool
        return (await self._tools.find(tool)).version if tool else ""

    async def render(self, job: RenderJob) -> RenderResult:
        """Implements `RenderWorkers.render`."""
        answer = await self._run("render", job)
        count, data = answer.fields.get("count"), answer.blobs.get("bundle")
        if not isinstance(count, int) or data is None:
            raise Unavailable("a render worker returned no result")
        files = [(str(file), int(number)) for file, number in answer.fields.get("files", [])]
        return RenderResult(data, count, _reads_of(answer), files)

    async def references(self, job: RenderJob) -> References:
        """Implements `RenderWorkers.references`."""
        answer = await self._run("references", job)
        charts = [
            ChartRef(
                str(chart["repository"]),
                str(chart["name"]),
                str(chart["version"]),
                folder=str(chart["folder"]),
            )
            for chart in answer.fields.get("charts", [])
        ]
        paths, bases = (list(map(str, answer.fields.get(name, []))) for name in ("paths", "bases"))
        return References(paths, charts, _reads_of(answer), bases=bases)

    async def versions(self, index: bytes, chart: str) -> Sequence[ChartVersion]:
        """Implements `RenderWorkers.versions`."""
        answer = await self._run(
            "versions", RenderJob(chart, "", {"index.yaml": index}, renderer="raw")
        )
        return [
            ChartVersion(str(version["version"]), str(version["digest"]), str(version["url"]))
            for version in answer.fields.get("charts", [])
        ]

    async def artifact(self, text: CommitText, layers: Sequence[ArtifactContent]) -> BuiltCommit:
        """Implements `ArtifactWorkers.artifact`."""
        settings: JsonObject = {
            "text": asdict(text),
            "layers": [{"form": layer.form.value, "path": layer.path} for layer, _ in layers],
        }
        files = {str(number): data for number, (_, data) in enumerate(layers)}
        answer = await self._run(
            "artifact", RenderJob("", "", files, settings=settings, renderer="raw")
        )
        sha, blobs = answer.fields.get("sha"), answer.blobs
        if not isinstance(sha, str) or not blobs.keys() >= {"commit", "pack"}:
            raise Unavailable("a render worker returned no commit")
        return BuiltCommit(sha, blobs["commit"], blobs["pack"])

    async def _run(self, verb: str, job: RenderJob) -> framing.WorkerMessage:
        tool = renderer_named(job.renderer).tool if verb == "render" else None
        command = (await self._tools.find(tool)).command if tool else ()
        request = _encode_request(verb, job, command)
        try:
            answer = await self._run_in_worker(request)
        except _WorkerKilled:
            log.warning("render worker killed, retrying its job")
            try:
                answer = await self._run_in_worker(request)
            except _WorkerKilled:
                message = "the render worker was killed twice; the machine may be out of memory"
                raise RenderInputError(message, _ALL_PARAMETERS) from None
        _raise_reported_error(answer)
        return answer

    async def _run_in_worker(self, request: bytes) -> framing.WorkerMessage:
        async with self._slots:
            worker = await self._free_worker()
            is_reusable = False
            try:
                answer = await worker.run_job(request, self._limits.seconds)
                is_reusable = worker.jobs < self._limits.jobs_per_worker
            finally:
                if is_reusable:
                    self._idle_workers.append(worker)
                else:
                    await self._discard(worker)
        return answer

    async def _free_worker(self) -> "_Worker":
        while self._idle_workers:
            worker = self._idle_workers.pop()
            if worker.alive:
                return worker
            await self._discard(worker)
        return await self._new_worker()

    async def _new_worker(self) -> "_Worker":
        scratch = self._scratch / uuid.uuid4().hex
        try:
            scratch.mkdir()
            if os.geteuid() == 0:
                os.chown(scratch, _NOBODY, _NOBODY)
        except OSError as error:
            raise Unavailable("cannot write to the git cache's disk") from error
        settings = {**asdict(self._limits), "scratch": str(scratch), "uid": _NOBODY}
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
        self._workers.add(worker)
        try:
            hello = await worker.receive(_START_SECONDS)
        except BaseException:
            await self._discard(worker)
            raise
        self._log_isolation(hello.fields)
        return worker

    async def _discard(self, worker: "_Worker") -> None:
        self._workers.discard(worker)
        await worker.kill()
        await asyncio.to_thread(shutil.rmtree, worker.scratch, True)

    def _log_isolation(self, flags: Mapping[str, object]) -> None:
        if self._has_logged_isolation:
            return
        self._has_logged_isolation = True
        log.info(
            "render workers are isolated", **{key: bool(value) for key, value in flags.items()}
        )
        if os.geteuid() == 0 and not flags.get("ownUser"):
            log.warning(
                "render workers run as root: other users cannot read this program or access /run; "
                "install it in a world-readable folder, or start it as another user"
            )
        if not flags.get("isolated") and not flags.get("filtered"):
            log.warning(
                "render workers have network access: neither namespaces nor seccomp filters "
                "are permitted here"
            )


class _Worker:
    """One process and its scratch folder."""

    def __init__(self, process: Process, scratch: Path) -> None:
        self._process = process
        self.scratch = scratch
        self.jobs = 0

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.returncode is None

    async def run_job(self, request: bytes, seconds: float) -> framing.WorkerMessage:
        """Runs one job. Raises RenderInputError beyond a limit, _WorkerKilled if others kill it."""
        self.jobs += 1
        writer = self._process.stdin
        if writer is None:
            raise Unavailable("a render worker has exited")
        try:
            # The kernel kills the worker at its CPU limit; the margin lets that be reported.
            async with asyncio.timeout(seconds + 2.0):
                writer.write(request)
                await writer.drain()
                return await self._read()
        except TimeoutError:
            raise _too_slow(seconds) from None
        except (EOFError, OSError, framing.BadMessage):
            status = await self._exit_status()
            if status == -signal.SIGXCPU:
                raise _too_slow(seconds) from None
            if status in _KILLED_STATUSES:
                raise _WorkerKilled from None
            raise RenderInputError(
                "rendering exceeded its memory or size limit", _ALL_PARAMETERS
            ) from None

    async def receive(self, seconds: float) -> framing.WorkerMessage:
        """Receives the first message. Raises Unavailable if the worker does not start."""
        try:
            async with asyncio.timeout(seconds):
                return await self._read()
        except (TimeoutError, EOFError, OSError, framing.BadMessage):
            raise Unavailable("a render worker failed to start") from None

    async def _exit_status(self) -> int | None:
        """Returns the exit status of the process, None if it still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                return await self._process.wait()
        return None

    async def kill(self) -> None:
        """Kills the process and all of its children."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await wait_for_end(self._process)

    async def _read(self) -> framing.WorkerMessage:
        reader = self._process.stdout
        if reader is None:
            raise EOFError
        length = framing.header_length(await reader.readexactly(framing.LENGTH.size))
        fields, sizes = framing.parse_header(await reader.readexactly(length), MAX_BUNDLE_BYTES)
        return framing.WorkerMessage(
            fields, {name: await reader.readexactly(size) for name, size in sizes}
        )


def _encode_request(verb: str, job: RenderJob, command: Sequence[str]) -> bytes:
    fields = {
        "verb": verb,
        "renderer": job.renderer,
        "folder": job.folder,
        "root": job.root,
        "parameters": dict(job.parameters),
        "templated": job.templated,
        "settings": dict(job.settings),
        "archives": dict(job.archives),
        "options": job.options.to_json(),
        "command": list(command),
    }
    return framing.encode(fields, job.files)


def _reads_of(answer: framing.WorkerMessage) -> list[list[str]]:
    return [[str(name) for name in path] for path in answer.fields.get("reads", _ALL_PARAMETERS)]


def _too_slow(seconds: float) -> Invalid:
    return RenderInputError(f"rendering did not finish within {seconds:g} s", _ALL_PARAMETERS)


def _raise_reported_error(answer: framing.WorkerMessage) -> None:
    message = answer.fields.get("message")
    if message is None:
        return
    if answer.fields.get("code") == Code.INVALID:
        raise RenderInputError(str(message), _reads_of(answer))
    raise Unavailable(str(message))


def _environment() -> dict[str, str]:
    """Returns the environment of a worker: only the paths of programs."""
    names = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    variables = {name: os.environ[name] for name in names if name in os.environ}
    return variables | {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
