"""Fetches the commits of submodules into the clone of their parent.

Only followed repositories of the same project are used, each with its own URL and credentials.
The URL in a commit only selects one of them; it is never connected to.
"""

from collections.abc import Awaitable, Callable, Mapping

from core.errors import Invalid
from core.identity import RepositoryId
from core.runtime.lru_cache import LRUCache
from core.spec.source import RepositorySpec
from gitcache.domain.submodules import find_followed

_MAX_REMEMBERED = 20_000

Graft = Callable[[RepositorySpec, RepositorySpec, str], Awaitable[None]]


class Submodules:
    """Remembers the URL of each submodule commit, and fetches the commit on demand.

    `followed` contains the specs of all followed repositories.
    """

    def __init__(self, graft: Graft, followed: Mapping[RepositoryId, RepositorySpec]) -> None:
        self._graft = graft
        self._followed = followed
        self._urls: LRUCache[tuple[str, str], tuple[str, str]] = LRUCache(_MAX_REMEMBERED)

    def remember(
        self, spec: RepositorySpec, modules: Mapping[str, str], commits: Mapping[str, str]
    ) -> None:
        """Stores a commit's submodules: path to URL, and path to commit."""
        for path, sha in commits.items():
            self._urls.put((spec.id, sha), (path, modules[path]))

    async def fetch_commit(self, spec: RepositorySpec, name: str, sha: str) -> None:
        """Fetches a submodule's commit into the clone. Raises Invalid if unknown, Unavailable."""
        path, url = self._urls.get((spec.id, sha)) or (name, "")
        other = find_followed(url, spec, self._followed)
        if other is None:
            raise Invalid(
                f"the submodule {path[:200]!r} is not a followed repository of this project: add "
                "its repository, or disable submodules for this one"
            )
        await self._graft(spec, other, sha)
