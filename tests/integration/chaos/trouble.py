"""Faults, one after another, in an order that a seed gives."""

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from core.runtime.clock import SystemClock
from tests.integration.replicas.fleet import Fleet, Replica
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from towline.demo.git_server import GitServer
from towline.simulate.worker import AgentWorker


class SteppedClock(SystemClock):
    """A clock whose wall time jumps when somebody sets it."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


class Trouble:
    """Everything that may break; each public coroutine breaks one thing and mends it again."""

    def __init__(
        self,
        seed: int,
        replicas: Fleet,
        postgres: Postgres,
        redis: Redis,
        git: GitServer,
        crowd: AgentWorker,
        clock: SteppedClock,
    ) -> None:
        self._draw = random.Random(seed)
        self._replicas = replicas
        self._postgres = postgres
        self._redis = redis
        self._git = git
        self._crowd = crowd
        self._clock = clock

    def order(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Each kind of trouble once, with its name."""
        kinds = [
            self.kill_a_replica,
            self.pause_a_replica,
            self.cut_connections,
            self.slow_git,
            self.fill_a_disk,
            self.flush_redis,
            self.freeze_redis,
            self.restart_postgres,
            self.step_the_clock,
        ]
        self._draw.shuffle(kinds)
        return [(kind.__name__, kind) for kind in kinds]

    async def kill_a_replica(self) -> None:
        """kill -9, and a new start, which may find anything else broken."""
        victim = self._any()
        await asyncio.to_thread(victim.kill)
        victim.start()

    async def mend(self) -> None:
        """Every replica runs again, also one that could not start."""
        for one in self._replicas.replicas:
            if not one.is_up and one.has_ended:
                one.start()
            if not one.is_up:
                await asyncio.to_thread(one.wait_ready)

    async def pause_a_replica(self) -> None:
        """All its connections stay open and nothing answers."""
        victim = self._any()
        victim.say(signal.SIGSTOP)
        await asyncio.sleep(self._draw.uniform(0.3, 1.0))
        victim.say(signal.SIGCONT)

    async def cut_connections(self) -> None:
        """Half of the agents' connections end in the middle of whatever they carry."""
        await self._crowd.cut(0.5)

    async def slow_git(self) -> None:
        """The git server takes its time."""
        self._git.delay = 0.3
        await asyncio.sleep(0.7)
        self._git.delay = 0.0

    async def fill_a_disk(self) -> None:
        """A replica can write no byte to any file, its log among them."""
        pid = self._any().pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        await asyncio.sleep(0.7)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    async def flush_redis(self) -> None:
        """Ownership and wakes under way are gone."""
        await asyncio.to_thread(self._redis.flush)

    async def freeze_redis(self) -> None:
        """Redis accepts and does not answer."""
        self._redis.freeze()
        await asyncio.sleep(self._draw.uniform(0.3, 1.0))
        self._redis.thaw()

    async def restart_postgres(self) -> None:
        """Gone in the middle of transactions, and recovered from its log."""
        await asyncio.to_thread(self._postgres.crash)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(self._postgres.start_again)

    async def step_the_clock(self) -> None:
        """The agents' wall clocks jump by ten minutes and back."""
        self._clock.offset = timedelta(minutes=self._draw.choice([-10, 10]))
        await asyncio.sleep(0.5)
        self._clock.offset = timedelta()

    def _any(self) -> Replica:
        return self._draw.choice(self._replicas.up or self._replicas.replicas)
