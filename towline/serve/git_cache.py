"""Git cache of a process: embedded, one of several replicas, or remote."""

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Protocol

import uvicorn
from prometheus_client.registry import Collector

from controlplane.platform.git_ports import ManifestSource
from core.errors import Invalid
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.source import RepositorySpec
from gitcache import compose, compose_replica
from gitcache.peers.client import KEEPALIVE_SECONDS
from gitcache.ports import ClusterEgress, Decryptor, LiveDigests
from gitcache.sync.cache import GitCache
from towline.serve.git_hosts import GitHostAdapter
from towline.serve.sockets import OFF, Listener, address, serve
from towline.settings import ServeSettings, ServeTarget, git_settings


class ManagedManifests(ManifestSource, Protocol):
    """The control plane's port, with the lifecycle of its implementation."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def parts(self) -> tuple[Tasks, ...]: ...

    def specs(self) -> Collection[RepositorySpec]: ...


class GitCacheComponent:
    """Builds the control plane's port `ManifestSource`; `manifests` is set from the start.

    With `git.peers.servers`, the git cache runs in other processes. Otherwise it runs in this
    process: alone, or as one of several replicas that share Redis, with a listener for the others.
    """

    def __init__(
        self,
        settings: ServeSettings,
        clock: Clock,
        *,
        egress: ClusterEgress | None = None,
        live: LiveDigests | None = None,
        decryptor: Decryptor | None = None,
    ) -> None:
        self._settings = settings
        self._exit_stack = AsyncExitStack()
        self._replica: compose_replica.Replica | None = None
        self._tasks = Tasks("peers")
        self._write_service = compose.build_write_service(git_settings(settings), clock, egress)
        self.manifests: ManagedManifests
        git = git_settings(settings)
        if _is_remote(settings):
            self.manifests = compose_replica.build_remote(git.peers, clock, live)
        elif listens_for_peers(settings):
            redis = settings.redis.get_secret_value() if settings.redis else None
            self._replica = compose_replica.build_replica(
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
            self.manifests = compose.build_git_cache(
                git, clock, egress=egress, live=live, decryptor=decryptor
            )
        self.hosts = GitHostAdapter(self._write_service, self.manifests.specs)

    @property
    def meters(self) -> Collection[Collector]:
        """Prometheus collectors; empty if the git cache is remote."""
        return self.manifests.meters if isinstance(self.manifests, GitCache) else ()

    def delivers(self, repository_id: str) -> bool:
        """Returns true if this replica delivers a repository, as no other one follows it."""
        if self._replica is None:
            return True
        owner = self._replica.cache.owner(RepositoryId(repository_id))
        return owner in (None, self._replica.name)

    async def start(self) -> str | None:
        """Starts; returns the address for other replicas. Unavailable: the port is in use."""
        self._exit_stack.push_async_callback(self._write_service.close)
        self._exit_stack.push_async_callback(self.manifests.stop)
        if self._replica is None:
            await self.manifests.start()
            return None
        listener = _listener(self._replica, self._settings.listen_peers)
        self._exit_stack.push_async_callback(self._tasks.stop)
        self._exit_stack.push_async_callback(self._drain, listener)
        # Other replicas learn about this one as soon as it starts, so it must listen first.
        port = await serve(self._tasks, "peers", listener)
        await self.manifests.start()
        return f"{listener.config.host}:{port}"

    async def stop(self) -> None:
        """Completes open requests, then stops."""
        await self._exit_stack.aclose()

    def parts(self) -> tuple[Tasks, ...]:
        """Background tasks that must not end before `stop`."""
        return (self._tasks, *self.manifests.parts())

    async def _drain(self, listener: Listener) -> None:
        """Hands over to other replicas first: nobody else serves this replica's repositories."""
        if self._replica is not None:
            await self._replica.cache.leave()
            self._replica.service.close()
        await listener.drain()


def _listener(replica: compose_replica.Replica, listen_address: str) -> Listener:
    if listen_address == OFF:
        raise Invalid("cannot be off: replicas connect to each other", field="listen_peers")
    host, port = address(listen_address, "listen_peers")
    config = uvicorn.Config(
        replica.service,
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
        # Longer than clients keep connections: the server never closes one that a client reuses.
        timeout_keep_alive=KEEPALIVE_SECONDS + 15,
    )
    config.load()
    config.ssl = replica.tls.server
    return Listener(config)


def listens_for_peers(settings: ServeSettings) -> bool:
    """Returns true if the git cache of this process listens for other replicas."""
    is_tier = settings.target is ServeTarget.GITCACHE
    return is_tier or (settings.redis is not None and not _is_remote(settings))


def _is_remote(settings: ServeSettings) -> bool:
    """Returns true if servers of another tier are the git cache."""
    is_tier = settings.target is ServeTarget.GITCACHE
    return bool(git_settings(settings).peers.servers) and not is_tier
