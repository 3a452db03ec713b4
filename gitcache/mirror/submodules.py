"""Fetches the commits of submodules into the clone of their parent.

Only followed repositories of the same project are used, each with its own URL and credentials.
The URL in a commit only selects one of them; it is never connected to.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from core.errors import Invalid
from core.identity import RepositoryId
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
        self._urls: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def remember(
        self, spec: RepositorySpec, modules: Mapping[str, str], commits: Mapping[str, str]
    ) -> None:
        """Stores a commit's submodules: path to URL, and path to commit."""
        for path, sha in commits.items():
            self._urls[spec.id, sha] = (path, modules[path])
            self._urls.move_to_end((spec.id, sha))
        while len(self._urls) > _MAX_REMEMBERED:
            self._urls.popitem(last=False)

    async def fetch_commit(self, spec: RepositorySpec, name: str, sha: str) -> None:
        """Fetches a submodule's commit into the clone. Raises Invalid if unknown, Unavailable."""
        path, url = self._urls.get((spec.id, sha), (name, ""))
        other = find_followed(url, spec, self._followed)
        if other is None:
            raise Invalid(
                f"the submodule {path[:200]!r} is not a followed repository of this project: add "
                "its repository, or disable submodules for this one"
            )
        await self._graft(spec, other, sha)
