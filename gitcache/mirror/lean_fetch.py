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
_AT_ONCE = 20_000
_USED_SHARE = 0.2
_LOOKED_THROUGH = 10


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
        self._waiting: dict[Path, set[str]] = defaultdict(set)
        self._turns: dict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def create(self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]) -> bool:
        """Fills a new clone with folders; returns False if a full clone is better or required."""
        if not parse_remote(spec.url).is_http:
            return False
        try:
            await self.fetch(spec, clone, wants)
        except PackUnavailable:
            return False
        for sha in set(wants.values()):
            if await self._is_worth_it(spec, clone, sha):
                clone.make_lean()
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
        order = PackRequest(shas, haves, clone.shallow(), depth=depth, filter=filter)
        await self._into(spec, clone, order)
        await clone.pin(wants)

    async def complete(self, spec: RepositorySpec, clone: Clone, blobs: Collection[str]) -> None:
        """Fetches files; callers during a running request share the next one."""
        self._waiting[clone.path].update(blobs)
        async with self._turns[clone.path]:
            wanted = sorted(self._waiting.pop(clone.path, ()))
            for start in range(0, len(wanted), _AT_ONCE):
                await self._get(spec, clone, wanted[start : start + _AT_ONCE])

    async def _get(self, spec: RepositorySpec, clone: Clone, blobs: list[str]) -> None:
        try:
            await self._into(spec, clone, PackRequest(blobs))
        except PackUnavailable as error:
            raise Unavailable(f"the server does not serve files by id: {error}") from None

    async def _into(self, spec: RepositorySpec, clone: Clone, order: PackRequest) -> None:
        async def work(route: ServerRoute) -> None:
            capabilities = await self._capabilities.of(route)
            if not (capabilities.version2 and capabilities.filters and capabilities.shallow):
                raise PackUnavailable("no partial clones")
            await self._take(route, capabilities, clone, order)

        await self._routes.use(spec, work)

    async def _take(
        self, route: ServerRoute, capabilities: Capabilities, clone: Clone, order: PackRequest
    ) -> None:
        place = clone.path / "objects" / "pack"
        with tempfile.NamedTemporaryFile(prefix="tmp_in_", dir=place) as file:
            answer = await self._packs.fetch(
                route, capabilities, order, file.file, limit=_MAX_BYTES, seconds=self._seconds
            )
            file.flush()
            await clone.index(Path(file.name), seconds=self._seconds)
        clone.cut(answer.shallow, answer.unshallow)

    async def _is_worth_it(self, spec: RepositorySpec, clone: Clone, sha: str) -> bool:
        """True if a commit is large and most of it is not in use."""
        most = self._entries * _LOOKED_THROUGH if spec.folders else self._entries + 1
        found = await measure_tree(clone.path, sha, spec.folders, most=most)
        return found.entries > self._entries and found.used < found.entries * _USED_SHARE
