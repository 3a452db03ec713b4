"""The processes that hold simulated agents, as those see them who lead them."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import Unavailable
from towline.demo.processes import ProcessGroup

_PROGRAM = (sys.executable, "-c", "from towline.simulate.crowd import main; main()")
_MOST_LINE = 64 << 20

Json = dict[str, Any]


class Crowd:
    """One process of agents; `names` are those that were asked to join."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self.names: list[str] = []

    @classmethod
    async def start(cls, group: ProcessGroup, log: Path) -> "Crowd":
        """A process without agents; it ends with this one."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *_PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_MOST_LINE,
                process_group=group.id,
                env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"},
            )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    async def ask(self, do: str, **more: Any) -> Json:
        """What the process answers to a verb. Unavailable: it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            try:
                self._process.stdin.write(orjson.dumps({"do": do, **more}) + b"\n")
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
            except OSError:
                line = b""
        if not line:
            raise Unavailable("a process of simulated agents has ended: see its log")
        return orjson.loads(line)

    async def join(
        self,
        agents: Sequence[Mapping[str, str]],
        ca: str,
        addresses: Sequence[str],
        patience: float = 120.0,
    ) -> Json:
        """Start agents and wait until they are linked; see `crowd.Crowd.join`."""
        self.names += [agent["id"] for agent in agents]
        given = [dict(agent) for agent in agents]
        return await self.ask("join", agents=given, ca=ca, addresses=addresses, patience=patience)

    def hang(self) -> None:
        """Stand still with all connections open, until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End of `hang`."""
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Kill the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def total(answers: Sequence[Json], key: str) -> int:
    """What all processes count together."""
    return sum(answer[key] for answer in answers)
