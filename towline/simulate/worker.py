"""Program that runs many simulated agents, controlled by lines of JSON.

Each line of standard input is `{"do": <command>, …}`, answered by one line of standard output. The
program ends with its input.
"""

import asyncio
import gc
import os
import random
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from itertools import count
from pathlib import Path

import orjson
import uvloop

from core.json_object import JsonObject
from core.runtime import logs
from core.runtime.clock import Clock, SystemClock
from core.runtime.tasks import Tasks
from towline.simulate import connections
from towline.simulate.agent import SimulatedAgent
from towline.simulate.churn import ChurnRecording, read

_MAX_CONCURRENT_JOINS = 100
_POLL_S, _JOIN_POLL_S = 0.02, 0.1
_GRACE_S = 1.0
_MAX_LINE_BYTES = 64 << 20
_COLLECT_AFTER = (20_000, 20, 20)


class AgentWorker:
    """Agents of this process; each public coroutine is a command."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._makers: dict[str, Callable[[], SimulatedAgent]] = {}
        self._agents: dict[str, SimulatedAgent] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ports: set[int] = set()
        self._reported: dict[str, list[str]] = {}
        self._noise: Tasks | None = None
        self._churn: Tasks | None = None
        self.tasks = Tasks("agents")

    async def join(
        self, agents: Sequence[JsonObject], ca: str, addresses: Sequence[str], patience: float
    ) -> JsonObject:
        """Starts agents (`id`, `token`) and waits until all have connected once."""
        self._ports |= {int(address.rpartition(":")[2]) for address in addresses}
        slots = asyncio.Semaphore(_MAX_CONCURRENT_JOINS)
        address_tuple, authority = tuple(addresses), ca.encode()

        async def start(agent_spec: JsonObject) -> None:
            async with slots:
                id, token = agent_spec["id"], agent_spec["token"]
                self._makers[id] = partial(
                    SimulatedAgent, id, token, authority, address_tuple, self._clock
                )
                agent = self._start_agent(id)
                await self._wait_until(lambda: agent.link.has_been_linked)

        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(start(agent) for agent in agents))
        return self._counts()

    async def snapshot(self) -> JsonObject:
        """Returns counts of the agents, and states applied since the last call."""
        settled = []
        for agent in self._agents.values():
            settled += [(agent.name, *astuple(change)) for change in agent.cluster.settled]
            agent.cluster.settled.clear()
        return {"settled": settled, **self._counts()}

    async def held(self) -> JsonObject:
        """Returns the services of each agent, and the names of objects with reported drift."""
        held = {name: agent.cluster.stored_services() for name, agent in self._agents.items()}
        return {"held": held, "reported": self._reported}

    async def traffic(self) -> JsonObject:
        """Returns bytes sent and received over open connections."""
        sent, received = connections.traffic(self._ports)
        return {"sent": sent, "received": received}

    async def cut(self, share: float) -> JsonObject:
        """Closes a share of the connections."""
        return {"cut": connections.cut(self._ports, share)}

    async def noise(self, agents: Sequence[str], rate: float) -> JsonObject:
        """Makes these agents report `rate` drifts per second each; 0 stops it."""
        if self._noise is not None:
            await self._noise.stop()
            self._noise = None
        if rate:
            self._noise = Tasks("noise")
            for name in agents:
                self._noise.spawn(name, self._make_noise(name, rate))
        return {"reported": sum(map(len, self._reported.values()))}

    async def renew(self, agents: Sequence[str]) -> JsonObject:
        """Replaces these agents with new ones; drops unsent reports."""
        for name in agents:
            self._running[name].cancel()
            await asyncio.wait({self._running[name]})
            self._reported.pop(name, None)
            self._start_agent(name)
        return self._counts()

    async def churn(self, file: str) -> JsonObject:
        """Makes all agents replay a recording in a loop from random offsets; "" stops it."""
        before = sum(agent.cluster.changes for agent in self._agents.values())
        if self._churn is not None:
            await self._churn.stop()
            self._churn = None
        if file:
            recording = read(Path(file))
            self._churn = Tasks("churn")
            for agent in self._agents.values():
                self._churn.spawn(agent.name, self._replay(agent, recording))
        return {"changes": before}

    async def probe(self, agents: Sequence[str], seconds: float, rate: float) -> JsonObject:
        """Measures seconds from report to acknowledgement, of `rate` random agents per second.

        Skips agents with an unacknowledged report. Reports that are not acknowledged `_GRACE_S`
        after the end count with the time they have waited.
        """
        took: list[float] = []
        work, sent = Tasks("probes"), 0
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until:
            agent = self._agents[random.choice(agents)]
            if not agent.outbox.unacknowledged and agent.link.linked:
                work.spawn("probe", self._probe(agent, took))
                sent += 1
            await self._clock.sleep(1 / rate)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._wait_until(lambda: len(took) == sent)
        await work.stop()
        return {"took": took}

    async def _probe(self, agent: SimulatedAgent, took: list[float]) -> None:
        began = self._clock.monotonic()
        self._report_drift(agent)
        try:
            while agent.outbox.unacknowledged:
                await self._clock.sleep(0.001)
        finally:
            took.append(self._clock.monotonic() - began)

    async def _replay(self, agent: SimulatedAgent, recording: ChurnRecording) -> None:
        began = self._clock.monotonic() - random.uniform(0, recording.seconds)
        for turn in count():
            for change in recording.changes:
                due = began + turn * recording.seconds + change.at - self._clock.monotonic()
                if due < 0 and turn == 0:
                    continue
                await self._clock.sleep(max(0.0, due))
                agent.cluster.change(change)

    async def _make_noise(self, name: str, rate: float) -> None:
        agent, reported, began = self._agents[name], 0, self._clock.monotonic()
        while True:
            due = int((self._clock.monotonic() - began) * rate)
            for _ in range(due - reported):
                self._report_drift(agent)
            reported = due
            await self._clock.sleep(max(_POLL_S, 1 / rate))

    def _start_agent(self, name: str) -> SimulatedAgent:
        agent = self._agents[name] = self._makers[name]()
        self._running[name] = self.tasks.spawn(name, agent.run())
        return agent

    def _report_drift(self, agent: SimulatedAgent) -> None:
        self._reported.setdefault(agent.name, []).append(agent.cluster.drift())

    def _counts(self) -> JsonObject:
        agents = self._agents.values()
        return {
            "agents": len(agents),
            "linked": sum(agent.link.linked for agent in agents),
            "links": sum(agent.cluster.links for agent in agents),
            "waiting": sum(agent.outbox.unacknowledged for agent in agents),
        }

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._clock.sleep(_JOIN_POLL_S)


async def _serve() -> None:
    worker = AgentWorker(SystemClock())
    commands: dict[str, Callable[..., Coroutine[object, object, JsonObject]]] = {
        "join": worker.join,
        "snapshot": worker.snapshot,
        "held": worker.held,
        "traffic": worker.traffic,
        "cut": worker.cut,
        "noise": worker.noise,
        "renew": worker.renew,
        "churn": worker.churn,
        "probe": worker.probe,
    }
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        arguments = orjson.loads(line)
        answer = await commands[arguments.pop("do")](**arguments)
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()
    # Closing thousands of channels takes long, and their result does not matter.
    os._exit(0)


def main() -> None:
    """Serves until the input ends."""
    logs.configure("error")
    # Modules stay for ever, and thousands of agents are mostly live objects: the garbage collector
    # ignores the former, and scans the latter less often.
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    uvloop.run(_serve())
