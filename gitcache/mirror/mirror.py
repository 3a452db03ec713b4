"""Composes all git access: listing refs, clones and reading, with one connection pool."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.identity import RepositoryId
from core.outbound.client import OutboundClient
from core.runtime.clock import Clock
from core.spec.source import RepositorySpec
from gitcache.mirror.clones import FetchMethods, GitClones
from gitcache.mirror.disk import Disk
from gitcache.mirror.history import HistoryReader
from gitcache.mirror.lean_fetch import LeanFetch
from gitcache.mirror.lfs import LargeFiles
from gitcache.mirror.ls_remote import AdaptiveRefLister, GitRefLister
from gitcache.mirror.metrics import GitMetrics
from gitcache.mirror.packs import PackClient
from gitcache.mirror.quick_fetch import QuickFetch
from gitcache.mirror.remote_git import RemoteGit
from gitcache.mirror.runner import GitRunner
from gitcache.mirror.submodules import Submodules
from gitcache.mirror.transport.app_tokens import AppTokens
from gitcache.mirror.transport.capabilities import KnownCapabilities
from gitcache.mirror.transport.git_environment import GitEnvironment
from gitcache.mirror.transport.http import GitHttpClient, address_guard
from gitcache.mirror.transport.ls_refs import HttpRefLister
from gitcache.mirror.transport.rate_limit import ServerRateLimiter
from gitcache.mirror.transport.route_finder import RouteFinder
from gitcache.mirror.transport.ssh_sharing import SharedSshConnections
from gitcache.mirror.trees import GitTrees, TreeLimits
from gitcache.ports import ClusterEgress

_HTTP_RETRY_SECONDS = 3600.0
_NONE_FOLLOWED: Mapping[RepositoryId, RepositorySpec] = {}


@dataclass(frozen=True, slots=True, repr=False)
class MirrorOptions:
    """Options of git access; sizes in bytes, times in seconds. `proxy` is a URL, `authority` PEM.

    `at_once` and `per_second` limit the requests to one server. Repositories with more than
    `lean_entries` files and folders get lean clones. `large_file` limits one Git LFS file,
    `memory` one git process, `files` and `total_bytes` one folder. Above `watermark`, a share of
    the disk, no new repository is cloned.
    """

    request_seconds: float = 20.0
    fetch_seconds: float = 300.0
    at_once: int = 8
    per_second: float = 50.0
    allow_private_hosts: bool = True
    known_hosts: Path | None = None
    proxy: str | None = None
    authority: str | None = None
    lean_entries: int = 20_000
    large_file: int = 64 << 20
    memory: int = 2 << 30
    watermark: float = 0.85
    files: int = 10_000
    total_bytes: int = 128 << 20
    ssh: str = "ssh"


class GitMirror:
    """All objects that access git; their files are in `home`.

    `followed` contains the repositories that may be submodules of others.
    """

    def __init__(
        self,
        home: Path,
        options: MirrorOptions,
        clock: Clock,
        *,
        egress: ClusterEgress | None = None,
        followed: Mapping[RepositoryId, RepositorySpec] = _NONE_FOLLOWED,
    ) -> None:
        guard = address_guard(allow_private_hosts=options.allow_private_hosts)
        self.pacing = ServerRateLimiter(
            clock, at_once=options.at_once, per_second=options.per_second
        )
        self.outbound = OutboundClient(
            guard, seconds=options.request_seconds, connections=0, decompress=True
        )
        self.http = GitHttpClient(self.outbound, self.pacing, clock)
        self.routes = RouteFinder(
            guard,
            clock,
            AppTokens(self.http, clock),
            egress=egress,
            proxy=options.proxy,
            authority=options.authority,
        )
        self.runner = GitRunner(home, memory=options.memory)
        self.connections = SharedSshConnections(clock, options.ssh)
        access = GitEnvironment(
            home,
            known_hosts=options.known_hosts,
            ssh=options.ssh,
            shared=self.connections,
        )
        self.git = RemoteGit(self.runner, access, self.routes, self.pacing)
        capabilities = KnownCapabilities(self.http, clock)
        self.http_lister = HttpRefLister(self.http, self.routes, capabilities)
        self.git_lister = GitRefLister(self.git, seconds=options.request_seconds)
        self.disk = Disk(home, watermark=options.watermark)
        self.meters = GitMetrics(self.disk)
        self.lister = AdaptiveRefLister(
            self.http_lister,
            self.git_lister,
            clock,
            self.meters,
            retry_seconds=_HTTP_RETRY_SECONDS,
        )
        packs = PackClient(self.http, self.meters)
        self.lean = LeanFetch(
            packs,
            self.routes,
            capabilities,
            entries=options.lean_entries,
            seconds=options.fetch_seconds,
        )
        self.quick = QuickFetch(packs, self.routes, capabilities)
        self.clones = GitClones(
            home,
            self.runner,
            FetchMethods(self.git, self.quick, self.lean),
            self.disk,
            self.meters,
            seconds=options.fetch_seconds,
        )
        self.history = HistoryReader(home, self.runner, self.git, self.lean, self.disk)
        self.large_files = LargeFiles(
            self.http,
            self.routes,
            self.clones.path,
            limit=options.large_file,
            total=options.total_bytes,
            seconds=options.fetch_seconds,
        )
        self.submodules = Submodules(self.clones.graft, followed)
        limits = TreeLimits(options.files, options.total_bytes)
        self.reader = GitTrees(self.clones, limits, self.large_files, self.submodules)

    async def open(self) -> None:
        """Creates and cleans the folder, and checks the git version. Raises GitError."""
        await asyncio.to_thread(self.clones.open)
        await asyncio.to_thread(self.connections.open)
        await self.runner.check_version()

    async def close(self) -> None:
        """Ends processes and closes connections."""
        await self.reader.close()
        await self.outbound.close()
        await asyncio.to_thread(self.runner.close)
        await self.connections.close()
