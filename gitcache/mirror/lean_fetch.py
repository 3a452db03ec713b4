"""Lean clones of huge repositories: all folders, but only the files in use.

Files are fetched in batches before a render reads them, never while a request is served. The
clone has no promisor remote, so that git never fetches by itself.
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from core.errors import Unavailable
from core.remotes import parse_remote
from core.spec.source import RepositorySpec
from gitcache.mirror.clone import Clone
from gitcache.mirror.packs import PackClient, PackRequest, PackUnavailable
from gitcache.mirror.transport.capabilities import Capabilities, KnownCapabilities
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder
from gitcache.mirror.tree_size import measure_tree

log = structlog.get_logger(__name__)

_MAX_BYTES = 2 << 30
_MAX_BATCH = 20_000
_USED_SHARE = 0.2
_MEASURED_FACTOR = 10


class LeanFetch:
    """Fetches folders without files, and files by id.

    A repository with more than `entries` files and folders gets a lean clone, unless at least a
    fifth of them is below the folders in use.
    """

    def __init__(
        self,
        packs: PackClient,
        routes: RouteFinder,
        capabilities: KnownCapabilities,
        *,
        entries: int,
        seconds: float,
    ) -> None:
        self._packs = packs
        self._routes = routes
        self._capabilities = capabilities
        self._entries = entries
        self._seconds = seconds
        self._requested_blobs: dict[Path, set[str]] = defaultdict(set)
        self._fetch_locks: dict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def create(self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]) -> bool:
        """Fills a new clone with folders; returns False if a full clone is better or required."""
        if not parse_remote(spec.url).is_http:
            return False
        try:
            await self.fetch(spec, clone, wants)
        except PackUnavailable:
            return False
        for sha in set(wants.values()):
            if await self._is_lean_worthwhile(spec, clone, sha):
                clone.mark_lean()
                log.info("lean clone created", repository=spec.id)
                return True
        return False

    async def fetch(
        self,
        spec: RepositorySpec,
        clone: Clone,
        wants: Mapping[str, str],
        *,
        depth: int = 1,
        filter: str = "blob:none",
    ) -> None:
        """Fetches and pins commits, by default with their folders.

        Raises PackUnavailable if the server cannot filter.
        """
        haves = list(dict.fromkeys(clone.pins().values()))
        shas = sorted(set(wants.values()))
        request = PackRequest(shas, haves, clone.shallow_commits(), depth=depth, filter=filter)
        await self._fetch_into(spec, clone, request)
        await clone.pin(wants)

    async def complete(self, spec: RepositorySpec, clone: Clone, blobs: Collection[str]) -> None:
        """Fetches files; callers during a running request share the next one."""
        self._requested_blobs[clone.path].update(blobs)
        async with self._fetch_locks[clone.path]:
            requested = sorted(self._requested_blobs.pop(clone.path, ()))
            for start in range(0, len(requested), _MAX_BATCH):
                await self._fetch_files(spec, clone, requested[start : start + _MAX_BATCH])

    async def _fetch_files(self, spec: RepositorySpec, clone: Clone, blobs: list[str]) -> None:
        try:
            await self._fetch_into(spec, clone, PackRequest(blobs))
        except PackUnavailable as error:
            raise Unavailable(f"the server does not serve files by id: {error}") from None

    async def _fetch_into(self, spec: RepositorySpec, clone: Clone, request: PackRequest) -> None:
        async def work(route: ServerRoute) -> None:
            capabilities = await self._capabilities.get(route)
            if not (capabilities.version2 and capabilities.filters and capabilities.shallow):
                raise PackUnavailable("no partial clones")
            await self._index_pack(route, capabilities, clone, request)

        await self._routes.use(spec, work)

    async def _index_pack(
        self, route: ServerRoute, capabilities: Capabilities, clone: Clone, request: PackRequest
    ) -> None:
        pack_folder = clone.path / "objects" / "pack"
        with tempfile.NamedTemporaryFile(prefix="tmp_in_", dir=pack_folder) as file:
            answer = await self._packs.fetch(
                route, capabilities, request, file.file, limit=_MAX_BYTES, seconds=self._seconds
            )
            file.flush()
            await clone.index(Path(file.name), seconds=self._seconds)
        clone.update_shallow(answer.shallow, answer.unshallow)

    async def _is_lean_worthwhile(self, spec: RepositorySpec, clone: Clone, sha: str) -> bool:
        """True if a commit is large and most of it is not in use."""
        max_entries = self._entries * _MEASURED_FACTOR if spec.folders else self._entries + 1
        size = await measure_tree(clone.path, sha, spec.folders, max_entries=max_entries)
        return size.entries > self._entries and size.used < size.entries * _USED_SHARE
