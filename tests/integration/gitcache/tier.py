"""Replicas of the git cache as processes of their own, and a control plane's client of them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import redis as library

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RenderRequest, RepositorySpec, RepositoryState
from gitcache.compose_replica import build_remote
from gitcache.peers.remote import RemoteGitCache
from gitcache.settings import PeerSettings
from tests.servers.redis import Redis
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

KEY = "a key that all replicas of this test share"
HEARTBEAT, LEASE = 0.2, 2.5
"""Seconds. A machine that is busy with other tests lets a process stand still for a second."""

_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]


class Tier:
    """Replicas `a`, `b`, `c` on one Redis."""

    def __init__(self, folder: Path, redis: Redis) -> None:
        self._folder = folder
        self._redis = redis
        self._group = ProcessGroup()
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses = dict(zip("abc", map("127.0.0.1:{}".format, free_ports(3)), strict=True))

    def start(self) -> None:
        """Start all."""
        for name in self.addresses:
            self.spawn(name)
        self.wait()

    def stop(self) -> None:
        """Kill all."""
        self._group.stop()

    def spawn(self, name: str) -> None:
        """Start a replica, or start it again on what it has left on its disk."""
        environment = {
            "TOWLINE_TARGET": "gitcache",
            "TOWLINE_DATA": str(self._folder / name),
            "TOWLINE_REDIS": self._redis.url,
            "TOWLINE_LISTEN_PEERS": self.addresses[name],
            "TOWLINE_LISTEN_METRICS": "off",
            "TOWLINE_GIT__POLL__SECONDS": "2",
            "TOWLINE_GIT__POLL__SECONDS_WITH_WEBHOOK": "2",
            "TOWLINE_GIT__POLL__REQUEST_SECONDS": "3",
            "TOWLINE_GIT__RENDER__WORKERS": "1",
            "TOWLINE_GIT__PEERS__NAME": name,
            "TOWLINE_GIT__PEERS__KEY": KEY,
            "TOWLINE_GIT__PEERS__HEARTBEAT_SECONDS": str(HEARTBEAT),
            "TOWLINE_GIT__PEERS__LEASE_SECONDS": str(LEASE),
        }
        self._programs[name] = self._group.spawn(
            [*_PROGRAM, "serve"], log=self.log(name), env=os.environ | environment
        )

    def wait(self) -> None:
        """Wait until all that run listen, and count as members."""
        deadline = time.monotonic() + 100
        while not all(map(self._listens, self.addresses)) or len(self.members()) < 3:
            assert time.monotonic() < deadline, "replicas do not start"
            time.sleep(0.05)
        time.sleep(2 * HEARTBEAT)

    def restore(self) -> None:
        """Have all replicas run again."""
        whole = len(self.members()) == len(self._programs)
        for name, program in self._programs.items():
            program.send_signal(signal.SIGCONT)
            if program.poll() is not None:
                self.spawn(name)
                whole = False
        if not whole:
            self.wait()

    def log(self, name: str) -> Path:
        """Log of a replica."""
        return self._folder / f"{name}.log"

    def having(self, digest: str) -> list[str]:
        """The replicas on whose disks a bundle lies."""
        name = digest.removeprefix("sha256:")
        place = Path("git", "bundles", name[:2], name[2:])
        return [one for one in self.addresses if (self._folder / one / place).exists()]

    def last_words(self) -> str:
        """The end of what each replica has said."""
        return "\n".join(
            f"--- {name}\n{self.log(name).read_text()[-3000:]}" for name in self.addresses
        )

    def send(self, name: str, number: signal.Signals) -> None:
        """A signal to a replica; one that ends it is waited for."""
        self._programs[name].send_signal(number)
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self._programs[name].wait()

    def members(self) -> list[str]:
        """Names of the replicas that live, as Redis knows them."""
        with library.Redis.from_url(self._redis.url) as client:
            return [one.decode() for one in client.zrange("{towline:git}:members", 0, -1)]

    def hold(self, repository: str) -> list[bytes | None]:
        """The lease on a repository, and who is prepared to take it over."""
        with library.Redis.from_url(self._redis.url) as client:
            return [
                client.hget(f"{{towline:git}}:{key}", repository) for key in ("owners", "prepared")
            ]

    def owner(self, repository: str) -> str | None:
        """The replica that holds a repository's lease, if it lives."""
        with library.Redis.from_url(self._redis.url) as client:
            lease = client.hget("{towline:git}:owners", repository)
        name = lease.decode().split()[0] if lease else None
        return name if name in self.members() else None

    def _listens(self, name: str) -> bool:
        host, port = self.addresses[name].split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0


class ControlPlane:
    """A control plane's side of the replicas: a client, and a record of states."""

    def __init__(self, tier: Tier, *names: str, discovery_seconds: float = 3600.0) -> None:
        self._tier = tier
        servers = tuple(tier.addresses[name] for name in names or tier.addresses)
        settings = PeerSettings(key=KEY, servers=servers)
        self.cache: RemoteGitCache = build_remote(
            settings, SystemClock(), discovery_seconds=discovery_seconds
        )
        self.seen: list[RepositoryState] = []
        self.cache.on_state(self.seen.append)

    def follow(self, name: str, url: str, credentials: GitCredentials | None = None) -> None:
        """Have a repository's main followed."""
        id = RepositoryId(name)
        self.cache.follow(RepositorySpec(id, url, frozenset({"main"}), credentials))

    def sha(self, name: str) -> str | None:
        """Published commit of main of a repository."""
        state = self.cache.state(RepositoryId(name))
        return state.commits["main"].sha if state and "main" in state.commits else None

    async def at(self, name: str, sha: str) -> None:
        """Waits until main of a repository is at a commit; the error has the last state."""
        try:
            await until(lambda: self.sha(name) == sha)
        except TimeoutError:
            state = self.cache.state(RepositoryId(name))
            raise AssertionError(
                f"{name} is not at {sha[:8]} but {state}; of {self._tier.owner(name)}; replicas "
                f"{self._tier.members()}\n{self._tier.last_words()}"
            ) from None

    async def request_poll(self, name: str, sha: str) -> None:
        """Sends the hint of a webhook."""
        await self.cache.request_poll(RepositoryId(name), {"refs/heads/main": sha})

    async def fetch(self, name: str, sha: str, folder: str) -> bytes:
        """Render a folder, and get the bundle."""
        rendered = await self.cache.render(RenderRequest(RepositoryId(name), sha, folder))
        return await self.cache.bundle(rendered.digest)


async def until(holds: Callable[[], object], *, seconds: float = 90.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)
