"""Stage of the scenarios: control plane, registered clusters, and processes with agents."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from core.errors import Invalid, Unavailable
from core.json_object import JsonObject
from towline.simulate.control_plane import ControlPlaneAddresses, TemporaryControlPlane
from towline.simulate.fleet import SimulatedFleet
from towline.simulate.worker_processes import WorkerProcess, sum_counts

PrintProgress = Callable[[str], None]

HUNG_SHARE = 0.3
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Size and duration of a run.

    `seconds`, `patience`: seconds. `noise`: reports per second of the noisy agent. `churn`: path of
    a recording.
    """

    clusters: int = 100
    seconds: float = 20.0
    noise: float = 1000.0
    patience: float = 120.0
    churn: Path | None = None


@dataclass(slots=True)
class Simulation:
    """State of a run. Scenarios disturb only the agents of `workers[0]`, `HUNG_SHARE` of all."""

    hub: ControlPlaneAddresses
    fleet: SimulatedFleet
    workers: list[WorkerProcess]
    plan: SimulationPlan
    say: PrintProgress
    own: TemporaryControlPlane | None = None
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    deployed: int = 0

    @property
    def size(self) -> int:
        """Number of agents."""
        return len(self.fleet.clusters)

    async def grow(self, size: int) -> float:
        """Registers and connects clusters up to `size`; returns the seconds to connect.

        Unavailable: some did not connect in time.
        """
        missing = size - self.size
        if missing <= 0:
            return 0.0
        self.say(f"registering {missing} clusters")
        clusters = await asyncio.to_thread(self.fleet.register, missing)
        agents = [{"id": cluster["id"], "token": cluster["deployToken"]} for cluster in clusters]
        self.say(f"connecting {missing} agents")
        began = time.monotonic()
        await asyncio.gather(
            *(
                worker.join(share, self.hub.authority, self.hub.agents, self.plan.patience)
                for worker, share in zip(self.workers, self._distribute(agents), strict=True)
                if share
            )
        )
        took = time.monotonic() - began
        await self.wait_linked()
        return took

    async def snapshot(self, workers: Collection[WorkerProcess] = ()) -> list[JsonObject]:
        """Asks the processes for the state of their agents."""
        return await asyncio.gather(
            *(worker.send_command("snapshot") for worker in workers or self.workers)
        )

    async def traffic(self) -> tuple[int, int]:
        """Bytes sent and received over all connections."""
        answers = await asyncio.gather(*(worker.send_command("traffic") for worker in self.workers))
        return sum_counts(answers, "sent"), sum_counts(answers, "received")

    async def close_connections(self, share: float) -> int:
        """Closes a share of all connections; returns the number."""
        return sum_counts(
            await asyncio.gather(
                *(worker.send_command("cut", share=share) for worker in self.workers)
            ),
            "cut",
        )

    async def churn(self, file: Path | None) -> int:
        """Starts replaying a recording; None stops it. Returns the changes reported before."""
        requests = (worker.send_command("churn", file=str(file or "")) for worker in self.workers)
        return sum_counts(await asyncio.gather(*requests), "changes")

    async def probe(self, seconds: float, rate: float = 30.0) -> list[float]:
        """Measures seconds from report to acknowledgement of `rate` quiet agents per second."""
        workers = self.workers[1:]
        answers = await asyncio.gather(
            *(
                worker.send_command(
                    "probe", agents=worker.names, seconds=seconds, rate=rate / len(workers)
                )
                for worker in workers
            )
        )
        return [took for answer in answers for took in answer["took"]]

    async def wait_linked(self) -> float:
        """Waits until every agent is connected; returns the seconds. Raises Unavailable."""
        return (await self.record_reconnection())[-1][0]

    async def record_reconnection(self) -> list[tuple[float, float]]:
        """Returns seconds and per cent of connected agents, until all are connected.

        Unavailable: not all connected in time.
        """
        began, samples = time.monotonic(), []
        while True:
            part = await self.linked()
            samples.append((time.monotonic() - began, part))
            if part >= 100:
                return samples
            if samples[-1][0] > self.plan.patience:
                raise Unavailable(f"not all agents connected within {self.plan.patience:.0f} s")
            await asyncio.sleep(_POLL_S)

    async def linked(self) -> float:
        """Per cent of the agents that are connected now."""
        return 100 * sum_counts(await self.snapshot(), "linked") / max(self.size, 1)

    async def deploy(self) -> float:
        """Deploys a service to each cluster; returns the seconds until all reported it."""
        if self.hub.git is None:
            raise Invalid("this scenario commits to Git: run it without --url")
        if self.deployed == self.size:
            return 0.0
        if not self.fleet.repository_id:
            await asyncio.to_thread(self.fleet.connect, self.hub.git)
        new = self.fleet.clusters[self.deployed :]
        self.say(f"deploying a service to {len(new)} clusters")
        began = time.monotonic()
        await asyncio.to_thread(self.fleet.deploy, new)
        await self.wait_reported({cluster["id"] for cluster in new}, began, self.workers)
        self.deployed = self.size
        return time.monotonic() - began

    async def commit(
        self, ids: Collection[str] = (), workers: Collection[WorkerProcess] = ()
    ) -> list[float]:
        """Commits to all; returns the seconds until each of `ids` (default: all) reported it.

        `workers`: ask only these processes. Unavailable: it takes too long.
        """
        await self.snapshot(workers)
        cluster_ids = set(ids) or {cluster["id"] for cluster in self.fleet.clusters}
        await asyncio.to_thread(self.fleet.commit, next(self.versions))
        began = time.monotonic()
        await asyncio.to_thread(self.fleet.request_poll)
        return await self.wait_reported(cluster_ids, began, workers or self.workers)

    async def wait_reported(
        self, cluster_ids: set[str], began: float, workers: Collection[WorkerProcess]
    ) -> list[float]:
        """Waits until all of `cluster_ids` report a new state; returns seconds since `began`.

        Unavailable: it takes too long.
        """
        reported: dict[str, float] = {}
        while missing := cluster_ids - reported.keys():
            if time.monotonic() - began > self.plan.patience:
                raise Unavailable(
                    f"{len(missing)} of {len(cluster_ids)} clusters did not report "
                    f"within {self.plan.patience:.0f} s"
                )
            await asyncio.sleep(_POLL_S)
            for answers in await self.snapshot(workers):
                reported |= {row[0]: row[5] - began for row in answers["settled"]}
        return [reported[id] for id in cluster_ids]

    def _distribute(self, agents: list[dict[str, str]]) -> list[list[dict[str, str]]]:
        """Distributes agents to processes."""
        first = round(len(agents) * HUNG_SHARE)
        others = len(self.workers) - 1
        rest = agents[first:]
        return [agents[:first], *(rest[at::others] for at in range(others))]
