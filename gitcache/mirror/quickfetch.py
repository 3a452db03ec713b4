"""Fast fetches of small updates: one request, with its pack piped into the clone.

git's own fetch also checks that all history is connected, which takes most of its time in large
repositories. Here git checks only the links of the received objects.
"""

import io
from collections.abc import Mapping

import structlog

from fleet.errors import Unavailable
from fleet.remotes import parse_remote
from fleet.source import RepositorySpec
from gitcache.mirror.capabilities import KnownCapabilities
from gitcache.mirror.clone import Clone
from gitcache.mirror.packs import NoPack, Order, PackClient
from gitcache.mirror.route import Refused, Route
from gitcache.mirror.routes import Routes
from gitcache.mirror.runner import GitError
from gitcache.mirror.taking import taker

log = structlog.get_logger(__name__)

_MAX_BYTES = 2 << 20
_SECONDS = 10.0
"""Giving up repeats the request with git, so a slow server gets some time."""

_MAX_HAVES = 64


class QuickFetch:
    """Tries a fast fetch; if it fails, the caller uses git's own fetch."""

    def __init__(self, packs: PackClient, routes: Routes, capabilities: KnownCapabilities) -> None:
        self._packs = packs
        self._routes = routes
        self._capabilities = capabilities

    async def fetch(self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]) -> bool:
        """Fetches and pins the wanted commits; returns False if this method does not work."""
        if not parse_remote(spec.url).is_http:
            return False

        async def work(route: Route) -> bool:
            return await self._fetch(route, clone, wants)

        try:
            return await self._routes.use(spec, work)
        except Refused:
            raise
        except (NoPack, GitError, Unavailable) as error:
            log.debug("no quick fetch", repository=spec.id, reason=str(error))
            return False

    async def _fetch(self, route: Route, clone: Clone, wants: Mapping[str, str]) -> bool:
        capabilities = await self._capabilities.of(route)
        if not capabilities.version2:
            return False
        haves = list(dict.fromkeys(clone.pins().values()))[-_MAX_HAVES:]
        if not haves:
            return False
        # A lean clone lacks files that the server would assume to be present.
        thin = not clone.is_lean()
        order = Order(sorted(set(wants.values())), haves, clone.shallow(), thin=thin)
        pack = io.BytesIO()
        async with taker(clone) as git:
            await self._packs.fetch(
                route,
                capabilities,
                order,
                pack,
                limit=_MAX_BYTES,
                seconds=_SECONDS,
                begun=git.start,
            )
            await git.take(pack.getvalue())
        await clone.pin(wants)
        return True
