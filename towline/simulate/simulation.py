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
    """State of a run. Scenarios disturb only the agents of `crowds[0]`, `HUNG_SHARE` of all."""

    hub: ControlPlaneAddresses
    fleet: SimulatedFleet
    crowds: list[WorkerProcess]
    plan: SimulationPlan
    say: PrintProgress
    own: TemporaryControlPlane | None = None
    joins: list[tuple[int, float]] = field(default_factory=list)
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    deployed: int = 0

    @property
    def size(self) -> int:
        """Number of agents."""
        return len(self.fleet.clusters)

    @property
    def quiet(self) -> list[str]:
        """Ids of agents that no scenario disturbs."""
        return [name for crowd in self.crowds[1:] for name in crowd.names]

    async def grow(self, size: int) -> float:
        """Registers and connects clusters up to `size`; returns the seconds to connect.

        Unavailable: some did not connect in time.
        """
        more = size - self.size
        if more <= 0:
            return 0.0
        self.say(f"registering {more} clusters")
        made = await asyncio.to_thread(self.fleet.register, more)
        agents = [{"id": cluster["id"], "token": cluster["deployToken"]} for cluster in made]
        self.say(f"connecting {more} agents")
        began = time.monotonic()
        await asyncio.gather(
            *(
                crowd.join(some, self.hub.authority, self.hub.agents, self.plan.patience)
                for crowd, some in zip(self.crowds, self._spread(agents), strict=True)
                if some
            )
        )
        took = time.monotonic() - began
        await self.until_linked()
        self.joins.append((more, took))
        return took

    async def snapshot(self, crowds: Collection[WorkerProcess] = ()) -> list[JsonObject]:
        """Asks the processes for the state of their agents."""
        return await asyncio.gather(*(crowd.ask("snapshot") for crowd in crowds or self.crowds))

    async def traffic(self) -> tuple[int, int]:
        """Bytes sent and received over all connections."""
        said = await asyncio.gather(*(crowd.ask("traffic") for crowd in self.crowds))
        return sum_counts(said, "sent"), sum_counts(said, "received")

    async def cut(self, share: float) -> int:
        """Closes a share of all connections; returns the number."""
        return sum_counts(
            await asyncio.gather(*(crowd.ask("cut", share=share) for crowd in self.crowds)), "cut"
        )

    async def churn(self, file: Path | None) -> int:
        """Starts replaying a recording; None stops it. Returns the changes reported before."""
        asked = (crowd.ask("churn", file=str(file or "")) for crowd in self.crowds)
        return sum_counts(await asyncio.gather(*asked), "changes")

    async def probe(self, seconds: float, rate: float = 30.0) -> list[float]:
        """Measures seconds from report to acknowledgement of `rate` quiet agents per second."""
        crowds = self.crowds[1:]
        said = await asyncio.gather(
            *(
                crowd.ask("probe", agents=crowd.names, seconds=seconds, rate=rate / len(crowds))
                for crowd in crowds
            )
        )
        return [took for answer in said for took in answer["took"]]

    async def until_linked(self) -> float:
        """Waits until every agent is connected; returns the seconds. Raises Unavailable."""
        return (await self.returning())[-1][0]

    async def returning(self) -> list[tuple[float, float]]:
        """Returns seconds and per cent of connected agents, until all are connected.

        Unavailable: not all connected in time.
        """
        began, seen = time.monotonic(), []
        while True:
            part = await self.linked()
            seen.append((time.monotonic() - began, part))
            if part >= 100:
                return seen
            if seen[-1][0] > self.plan.patience:
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
        await self.wait_reported({service["id"] for service in new}, began, self.crowds)
        self.deployed = self.size
        return time.monotonic() - began

    async def commit(
        self, names: Collection[str] = (), crowds: Collection[WorkerProcess] = ()
    ) -> list[float]:
        """Commits to all; returns the seconds until each of `names` (default: all) reported it.

        `crowds`: ask only these processes. Unavailable: it takes too long.
        """
        await self.snapshot(crowds)
        wanted = set(names) or {cluster["id"] for cluster in self.fleet.clusters}
        await asyncio.to_thread(self.fleet.commit, next(self.versions))
        began = time.monotonic()
        await asyncio.to_thread(self.fleet.hint)
        return await self.wait_reported(wanted, began, crowds or self.crowds)

    async def wait_reported(
        self, wanted: set[str], began: float, crowds: Collection[WorkerProcess]
    ) -> list[float]:
        """Waits until all of `wanted` report a new state; returns seconds since `began`.

        Unavailable: it takes too long.
        """
        reported: dict[str, float] = {}
        while wanted - reported.keys():
            if time.monotonic() - began > self.plan.patience:
                raise Unavailable(
                    f"{len(wanted - reported.keys())} of {len(wanted)} clusters did not report "
                    f"within {self.plan.patience:.0f} s"
                )
            await asyncio.sleep(_POLL_S)
            for said in await self.snapshot(crowds):
                reported |= {row[0]: row[5] - began for row in said["settled"]}
        return [reported[name] for name in wanted]

    def _spread(self, agents: list[dict[str, str]]) -> list[list[dict[str, str]]]:
        """Distributes agents to processes."""
        first = round(len(agents) * HUNG_SHARE)
        others = len(self.crowds) - 1
        rest = agents[first:]
        return [agents[:first], *(rest[at::others] for at in range(others))]
