"""Handles for the processes that run simulated agents."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from core.errors import Unavailable
from core.json_object import JsonObject
from towline.demo.process_group import ProcessGroup

_PROGRAM = (sys.executable, "-c", "from towline.simulate.worker import main; main()")
_MAX_LINE_BYTES = 64 << 20


class WorkerProcess:
    """Process that runs agents; `names`: ids of its agents."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self.names: list[str] = []

    @classmethod
    async def start(cls, group: ProcessGroup, log: Path) -> "WorkerProcess":
        """Starts a process without agents; it ends with this process."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *_PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_MAX_LINE_BYTES,
                process_group=group.id,
                env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"},
            )
        return cls(process)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    async def send_command(self, command: str, **arguments: object) -> JsonObject:
        """Sends a command and returns the response. Unavailable: the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._lock:
            try:
                self._process.stdin.write(orjson.dumps({"do": command, **arguments}) + b"\n")
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
            except OSError:
                line = b""
        if not line:
            raise Unavailable("a process of simulated agents ended unexpectedly: see its log")
        return orjson.loads(line)

    async def join(
        self,
        agents: Sequence[Mapping[str, str]],
        ca: str,
        addresses: Sequence[str],
        patience: float = 120.0,
    ) -> JsonObject:
        """Starts agents and waits until they are connected; see `worker.AgentWorker.join`."""
        self.names += [agent["id"] for agent in agents]
        return await self.send_command(
            "join", agents=agents, ca=ca, addresses=addresses, patience=patience
        )

    def hang(self) -> None:
        """Pauses the process with all connections open, until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resumes the process after `hang`."""
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Kills the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def sum_counts(answers: Sequence[JsonObject], key: str) -> int:
    """Sum of a count over all processes."""
    return sum(answer[key] for answer in answers)
