"""What scenarios play on: a control plane, clusters registered there, their agents in processes."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from fleet.errors import Invalid, Unavailable
from towline.simulate.crowds import Crowd, total
from towline.simulate.fleet import Fleet
from towline.simulate.hub import Hub, OwnHub

Json = dict[str, Any]
Say = Callable[[str], None]

HUNG_SHARE = 0.3
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """How large and how long; `noise` are reports a second of one agent, times are in seconds,
    `churn` is a recording."""

    clusters: int = 100
    seconds: float = 20.0
    noise: float = 1000.0
    patience: float = 120.0
    churn: Path | None = None


@dataclass(slots=True)
class Stage:
    """Agents of `crowds[0]` are those that may be slow or hang: `HUNG_SHARE` of all."""

    hub: Hub
    fleet: Fleet
    crowds: list[Crowd]
    plan: Plan
    say: Say
    own: OwnHub | None = None
    joins: list[tuple[int, float]] = field(default_factory=list)
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    deployed: int = 0

    @property
    def size(self) -> int:
        """How many agents there are."""
        return len(self.fleet.clusters)

    @property
    def quiet(self) -> list[str]:
        """Agents that no scenario disturbs."""
        return [name for crowd in self.crowds[1:] for name in crowd.names]

    async def grow(self, size: int) -> float:
        """Register and connect clusters until there are so many; seconds to connect them.

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

    async def look(self, crowds: Collection[Crowd] = ()) -> list[Json]:
        """What the processes say of their agents."""
        return await asyncio.gather(*(crowd.ask("look") for crowd in crowds or self.crowds))

    async def traffic(self) -> tuple[int, int]:
        """Bytes up and down over all connections."""
        said = await asyncio.gather(*(crowd.ask("traffic") for crowd in self.crowds))
        return total(said, "sent"), total(said, "received")

    async def cut(self, share: float) -> int:
        """End a share of all connections; how many."""
        return total(
            await asyncio.gather(*(crowd.ask("cut", share=share) for crowd in self.crowds)), "cut"
        )

    async def churn(self, file: Path | None) -> int:
        """Let all agents play a recording from now on, None: no longer; changes told before."""
        asked = (crowd.ask("churn", file=str(file or "")) for crowd in self.crowds)
        return total(await asyncio.gather(*asked), "changes")

    async def probe(self, seconds: float, rate: float = 30.0) -> list[float]:
        """Seconds from a report of a quiet agent to its acknowledgement, several times a second."""
        crowds = self.crowds[1:]
        said = await asyncio.gather(
            *(
                crowd.ask("probe", agents=crowd.names, seconds=seconds, rate=rate / len(crowds))
                for crowd in crowds
            )
        )
        return [took for answer in said for took in answer["took"]]

    async def until_linked(self) -> float:
        """Wait until every agent is linked; the seconds that took. Unavailable: some are not."""
        return (await self.returning())[-1][0]

    async def returning(self) -> list[tuple[float, float]]:
        """Seconds from now on and per cent of the agents linked then, until all are.

        Unavailable: some are not in time.
        """
        began, seen = time.monotonic(), []
        while True:
            part = await self.linked()
            seen.append((time.monotonic() - began, part))
            if part >= 100:
                return seen
            if seen[-1][0] > self.plan.patience:
                raise Unavailable(f"not all agents were linked within {self.plan.patience:.0f} s")
            await asyncio.sleep(_LOOK_S)

    async def linked(self) -> float:
        """Per cent of the agents that are linked now."""
        return 100 * total(await self.look(), "linked") / max(self.size, 1)

    async def deploy(self) -> float:
        """A service in each cluster, carried out and told of; the seconds. Invalid: no git."""
        if self.hub.git is None:
            raise Invalid("this scenario commits to git: it needs a control plane of its own")
        if self.deployed == self.size:
            return 0.0
        if not self.fleet.repository_id:
            await asyncio.to_thread(self.fleet.connect, self.hub.git)
        new = self.fleet.clusters[self.deployed :]
        self.say(f"deploying a service to {len(new)} clusters")
        began = time.monotonic()
        await asyncio.to_thread(self.fleet.deploy, new)
        await self.told({service["id"] for service in new}, began, self.crowds)
        self.deployed = self.size
        return time.monotonic() - began

    async def commit(
        self, names: Collection[str] = (), crowds: Collection[Crowd] = ()
    ) -> list[float]:
        """Commit to all; seconds until each of `names` (all) has told that it has it.

        With `crowds`, only those processes are asked. Unavailable: it takes too long.
        """
        await self.look(crowds)
        wanted = set(names) or {cluster["id"] for cluster in self.fleet.clusters}
        await asyncio.to_thread(self.fleet.commit, next(self.versions))
        began = time.monotonic()
        await asyncio.to_thread(self.fleet.hint)
        return await self.told(wanted, began, crowds or self.crowds)

    async def told(self, wanted: set[str], began: float, crowds: Collection[Crowd]) -> list[float]:
        """Wait until all of `wanted` have told of something new; seconds since `began`.

        Unavailable: it takes too long.
        """
        told: dict[str, float] = {}
        while wanted - told.keys():
            if time.monotonic() - began > self.plan.patience:
                raise Unavailable(
                    f"{len(wanted - told.keys())} of {len(wanted)} clusters did not follow within "
                    f"{self.plan.patience:.0f} s"
                )
            await asyncio.sleep(_LOOK_S)
            for said in await self.look(crowds):
                told |= {row[0]: row[5] - began for row in said["settled"]}
        return [told[name] for name in wanted]

    def _spread(self, agents: list[dict[str, str]]) -> list[list[dict[str, str]]]:
        """The agents of each process."""
        first = round(len(agents) * HUNG_SHARE)
        others = len(self.crowds) - 1
        rest = agents[first:]
        return [agents[:first], *(rest[at::others] for at in range(others))]
