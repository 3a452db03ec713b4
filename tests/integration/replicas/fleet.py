"""Three processes on one PostgreSQL and one Redis, and an agent that finds them."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.rpc.calls import CallChannel
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from syncagent.link.channel import Endpoint
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.ports import free_ports

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()", "serve"]
PATIENCE = 90.0
SHARED = ("encryption.key", "tls", "admin.token")
_KEY = "the key that all replicas of the test share"


class Replica:
    """One process; `kill`, `pause`, `go_on` and `stop` it, and `start` it again."""

    def __init__(
        self, name: str, folder: Path, database: str, redis: str, more: Mapping[str, str]
    ) -> None:
        self.name = name
        self.data = folder / name / "data"
        self.log = folder / name / "serve.log"
        self.https, self.http, self.agents, self.peers, self.replicas = free_ports(5)
        self._environment = {
            **os.environ,
            "TOWLINE_DATABASE": database,
            "TOWLINE_REDIS": redis,
            "TOWLINE_DRAIN_SECONDS": "3",
            "TOWLINE_GIT__PEERS__KEY": _KEY,
            "TOWLINE_GIT__PEERS__NAME": name,
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.is_up = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def vary(self, more: Mapping[str, str]) -> None:
        """Start it with these variables from now on."""
        self._environment.update(more)

    @property
    def has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    @property
    def token(self) -> str:
        return (self.data / "admin.token").read_text()

    def start(self) -> None:
        """Start it; `wait_ready` waits."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        where = "127.0.0.1:{}".format
        flags = ["--data", str(self.data), "--listen-metrics", "off"]
        flags += ["--listen", where(self.https), "--listen-http", where(self.http)]
        flags += ["--listen-agents", where(self.agents), "--listen-peers", where(self.peers)]
        flags += ["--listen-replicas", where(self.replicas)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*PROGRAM, *flags], stderr=log, env=self._environment, start_new_session=True
            )

    def wait_ready(self) -> None:
        """Wait until it says so."""
        assert self._process is not None
        until = time.monotonic() + PATIENCE
        while b"serve.ready" not in self.log.read_bytes():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        self.is_up = True

    def say(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self.is_up = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def drain(self) -> None:
        """Ask it to end; `wait_ended` waits."""
        self.is_up = False
        self.say(signal.SIGTERM)

    def wait_ended(self) -> int:
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def ask(self, document: str, **variables: Any) -> dict[str, Any]:
        """The data of an answer of its API."""
        authority = (self.data / "tls" / "ca.crt").read_text()
        return GraphQLClient(
            ControlPlaneTarget(f"https://127.0.0.1:{self.https}", self.token, authority)
        ).ask(document, **variables)


class Fleet:
    """All replicas; those that come second get the keys that the first has made."""

    def __init__(
        self,
        folder: Path,
        database: str,
        redis: str,
        names: str = "abc",
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.replicas = [Replica(name, folder, database, redis, more or {}) for name in names]
        self._made = 0

    def start(self) -> None:
        self.start_first()
        self.start_others()

    def start_first(self) -> None:
        """The one that makes the keys."""
        first = self.replicas[0]
        first.start()
        first.wait_ready()

    def start_others(self) -> None:
        """Those that share them."""
        first, *others = self.replicas
        for other in others:
            _share(first.data, other.data)
            other.start()
        for other in others:
            other.wait_ready()

    def stop(self) -> None:
        for one in self.replicas:
            one.kill()

    @property
    def up(self) -> list[Replica]:
        return [one for one in self.replicas if one.is_up]

    def cluster(self) -> dict[str, Any]:
        """A new cluster: id, handle, deployToken."""
        self._made += 1
        made = self.up[0].ask(
            """mutation ($name: String!) { createCluster(attributes: {name: $name})
              { id handle deployToken } }""",
            name=f"cluster-{os.getpid()}-{self._made}",
        )
        return made["createCluster"]


def _share(source: Path, target: Path) -> None:
    for name in SHARED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


@dataclass
class Agent:
    """An agent's tunnel; it dials any replica that is up, anew on request or when cut off."""

    fleet: Fleet
    token: str
    upstream: Upstream
    instance: bytes = field(default_factory=lambda: os.urandom(16))
    only: Replica | None = None
    client: TunnelClient | None = None
    at: Replica | None = None
    refused: str = ""
    tasks: Tasks = field(default_factory=lambda: Tasks("agent"))

    async def run(self) -> None:
        """Stay connected, as the agent's link does."""
        while True:
            wanted = self.only or random.choice(self.fleet.up)
            leave = await self._serve(wanted)
            await asyncio.sleep(0.0 if leave else random.uniform(0, 0.5))

    async def _serve(self, replica: Replica) -> bool:
        """One connection until it is lost, or is to be left to end by itself: True."""
        authority = (replica.data / "tls" / "ca.crt").read_bytes()
        clock = SystemClock()
        endpoint = Endpoint(f"127.0.0.1:{replica.agents}", self.token, authority)
        channel = endpoint.connect(clock)
        client = TunnelClient(
            channel,
            endpoint.metadata,
            self.upstream,
            clock,
            ImpersonationPolicy(),
            instance=self.instance,
        )
        self.client, self.at = client, replica
        running = self.tasks.spawn("run", _run(client, channel))
        leaving = self.tasks.spawn("leaving", client.draining.wait())
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            leaving.cancel()
            self.refused = running.result()
            return False
        self.tasks.spawn("finish", client.finish())
        return True


async def _run(client: TunnelClient, channel: CallChannel) -> str:
    try:
        return await client.run()
    finally:
        await channel.close()


@asynccontextmanager
async def an_agent(fleet: Fleet, token: str, upstream: Upstream) -> AsyncGenerator[Agent, None]:
    """An agent that looks for a replica by itself."""
    agent = Agent(fleet, token, upstream)
    agent.tasks.spawn("agent", agent.run())
    try:
        yield agent
    finally:
        await agent.tasks.stop()
