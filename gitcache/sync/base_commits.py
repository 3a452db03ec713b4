"""Finds the commits of remote bases among the connected repositories.

Only followed Git repositories of the same project are used, each with its own URL and credentials.
The URL in a kustomization only selects one of them; it is never connected to.
"""

from collections.abc import Awaitable, Callable, Mapping

from core.errors import Invalid, NotFound
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache
from core.spec.source import Commit, RepositorySpec
from gitcache.domain.remote_bases import BaseRef
from gitcache.domain.submodules import find_followed
from gitcache.ports import FoundBase
from gitcache.render.plan import CommitRoot

_CACHE_SECONDS = 60.0
_MAX_CACHED_REFS = 1000


class BaseCommits:
    """Implements `Bases`; caches the commit of a branch or tag for one minute.

    `followed` contains the specs of all followed repositories. `resolve` finds the commit of a
    ref, and `root` its folders; it fetches the commit at most once.
    """

    def __init__(
        self,
        followed: Mapping[RepositoryId, RepositorySpec],
        resolve: Callable[[RepositoryId, str], Awaitable[Commit]],
        root: Callable[[RepositoryId, str], Awaitable[CommitRoot]],
        clock: Clock,
    ) -> None:
        self._followed = followed
        self._resolve = resolve
        self._root = root
        self._cached: TTLCache[tuple[RepositoryId, str], str] = TTLCache(
            clock, _CACHE_SECONDS, _MAX_CACHED_REFS
        )

    async def find(self, origin: RepositorySpec, base: BaseRef) -> FoundBase:
        """Implements `Bases.find`."""
        spec = find_followed(base.url, origin, self._followed)
        if spec is None:
            raise Invalid(
                f"kustomization.yaml names the remote base {base.url[:200]!r}, which is not a "
                "repository of this project: connect it (`towline repos create`), or add the "
                "folder to this repository"
            )
        sha = await self._resolve_ref(spec, base.ref)
        return FoundBase(spec, sha, (await self._root(spec.id, sha)).tree)

    async def _resolve_ref(self, spec: RepositorySpec, ref: str) -> str:
        if (cached := self._cached.get((spec.id, ref))) is not None:
            return cached
        try:
            sha = (await self._resolve(spec.id, ref)).sha
        except NotFound as error:
            raise Invalid(f"a remote base: {error.message}") from error
        self._cached.put((spec.id, ref), sha)
        return sha
