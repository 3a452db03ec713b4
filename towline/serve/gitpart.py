"""The git cache of a process: embedded, one replica among several, or elsewhere."""

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Protocol

import uvicorn
from prometheus_client.registry import Collector

from controlplane.ports import Manifests
from fleet.errors import Invalid
from fleet.identity import RepositoryId
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.source import RepositorySpec
from gitcache import compose, replica
from gitcache.peers.client import KEPT_SECONDS
from gitcache.ports import Decryptor, Egress, LiveDigests
from gitcache.settings import GitCacheSettings
from gitcache.sync.cache import GitCache
from towline.serve.hosting import GitHosts
from towline.serve.sockets import OFF, Listener, address, serve
from towline.settings import ServeSettings, Target


class RunningManifests(Manifests, Protocol):
    """The control plane's port, with the life of what fills it."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def parts(self) -> tuple[Tasks, ...]: ...

    def specs(self) -> Collection[RepositorySpec]: ...


class GitPart:
    """What fills the control plane's port `Manifests`; `manifests` is there from the beginning.

    `git.peers.servers` names a tier of other processes. Otherwise it is in this process: alone,
    or one replica of several that share Redis, with a listener for the others.
    """

    def __init__(
        self,
        settings: ServeSettings,
        clock: Clock,
        *,
        egress: Egress | None = None,
        live: LiveDigests | None = None,
        decryptor: Decryptor | None = None,
    ) -> None:
        self._settings = settings
        self._ends = AsyncExitStack()
        self._replica: replica.Replica | None = None
        self._tasks = Tasks("peers")
        self._side = compose.write_side(git_settings(settings), clock, egress)
        self.hosts = GitHosts(self._side, lambda: self.manifests.specs())
        self.manifests: RunningManifests
        git = git_settings(settings)
        is_tier = settings.target is Target.GITCACHE
        if git.peers.servers and not is_tier:
            self.manifests = replica.build_remote(git.peers, clock, live)
        elif settings.redis is not None or is_tier:
            redis = settings.redis.get_secret_value() if settings.redis else None
            self._replica = replica.build_replica(
                git,
                clock,
                redis,
                settings.listen_peers,
                egress=egress,
                live=live,
                decryptor=decryptor,
            )
            self.manifests = self._replica.cache
        else:
            self.manifests = compose.build(
                git, clock, egress=egress, live=live, decryptor=decryptor
            )

    @property
    def meters(self) -> Collection[Collector]:
        """What a registry of Prometheus may collect from; nothing if the tier is elsewhere."""
        return self.manifests.meters if isinstance(self.manifests, GitCache) else ()

    def delivers(self, repository_id: str) -> bool:
        """Whether no other replica follows a repository: that one delivers it."""
        if self._replica is None:
            return True
        owner = self._replica.cache.owner(RepositoryId(repository_id))
        return owner in (None, self._replica.name)

    async def start(self) -> str | None:
        """Begin; where other replicas reach this one. Unavailable: the port is taken."""
        self._ends.push_async_callback(self._side.close)
        self._ends.push_async_callback(self.manifests.stop)
        if self._replica is None:
            await self.manifests.start()
            return None
        listener = _listener(self._replica, self._settings.listen_peers)
        self._ends.push_async_callback(self._tasks.stop)
        self._ends.push_async_callback(self._drain, listener)
        # Others are told of this replica as soon as it starts, so it must listen before.
        port = await serve(self._tasks, "peers", listener)
        await self.manifests.start()
        return f"{listener.config.host}:{port}"

    async def stop(self) -> None:
        """Answer what was asked, then end."""
        await self._ends.aclose()

    def parts(self) -> tuple[Tasks, ...]:
        """Owners of work that must not end before `stop`."""
        return (self._tasks, *self.manifests.parts())

    async def _drain(self, listener: Listener) -> None:
        """Let others take over first: until they do, nobody answers for what is owned here."""
        if self._replica is not None:
            await self._replica.cache.leave()
            self._replica.service.close()
        await listener.drain()


def _listener(part: replica.Replica, text: str) -> Listener:
    if text == OFF:
        raise Invalid("replicas must reach each other", field="listen_peers")
    host, port = address(text, "listen_peers")
    config = uvicorn.Config(
        part.service,
        host=host,
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        # Longer than clients keep one: neither side closes what the other is about to use.
        timeout_keep_alive=KEPT_SECONDS + 15,
    )
    config.load()
    config.ssl = part.tls.server
    return Listener(config)


def git_settings(settings: ServeSettings) -> GitCacheSettings:
    """The settings of the git cache, below the data directory of the process."""
    return GitCacheSettings(data_dir=settings.data / "git", **dict(settings.git))
