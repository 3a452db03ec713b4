"""Fast fetches of small updates: one request, with its pack piped into the clone.

git's own fetch also checks that all history is connected, which takes most of its time in large
repositories. Here git checks only the links of the received objects.
"""

import io
from collections.abc import Mapping

import structlog

from core.errors import Unavailable
from core.remotes import parse_remote
from core.spec.source import RepositorySpec
from gitcache.mirror.clone import Clone
from gitcache.mirror.pack_indexer import open_pack_indexer
from gitcache.mirror.packs import PackClient, PackRequest, PackUnavailable
from gitcache.mirror.runner import GitError
from gitcache.mirror.transport.capabilities import KnownCapabilities
from gitcache.mirror.transport.route import CredentialsRefused, ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder

log = structlog.get_logger(__name__)

_MAX_BYTES = 2 << 20
_SECONDS = 10.0
"""Giving up repeats the request with git, so a slow server gets some time."""

_MAX_HAVES = 64


class QuickFetch:
    """Tries a fast fetch; if it fails, the caller uses git's own fetch."""

    def __init__(
        self, packs: PackClient, routes: RouteFinder, capabilities: KnownCapabilities
    ) -> None:
        self._packs = packs
        self._routes = routes
        self._capabilities = capabilities

    async def fetch(self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]) -> bool:
        """Fetches and pins the wanted commits; returns False if this method does not work."""
        if not parse_remote(spec.url).is_http:
            return False
        try:
            return await self._routes.use(spec, lambda route: self._fetch(route, clone, wants))
        except CredentialsRefused:
            raise
        except (PackUnavailable, GitError, Unavailable) as error:
            log.debug("quick fetch failed", repository=spec.id, reason=str(error))
            return False

    async def _fetch(self, route: ServerRoute, clone: Clone, wants: Mapping[str, str]) -> bool:
        capabilities = await self._capabilities.get(route)
        if not capabilities.version2:
            return False
        haves = list(dict.fromkeys(clone.pins().values()))[-_MAX_HAVES:]
        if not haves:
            return False
        # A lean clone lacks files that the server would assume to be present.
        thin = not clone.is_lean()
        request = PackRequest(
            sorted(set(wants.values())), haves, clone.shallow_commits(), thin=thin
        )
        pack = io.BytesIO()
        async with open_pack_indexer(clone) as indexer:
            await self._packs.fetch(
                route,
                capabilities,
                request,
                pack,
                limit=_MAX_BYTES,
                seconds=_SECONDS,
                on_response=indexer.start,
            )
            await indexer.add(pack.getvalue())
        await clone.pin(wants)
        return True
