"""Commits of submodules, brought into the clone whose folders they belong to.

Only repositories that are followed in the same project count, each read with its own URL and
credentials: what a commit says is a hint at which one is meant, and no address to go to.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping

from fleet.errors import Invalid
from fleet.remotes import parse_remote
from fleet.source import RepositorySpec
from gitcache.domain.submodules import place, place_of

_MAX_KNOWN = 20_000

Graft = Callable[[RepositorySpec, RepositorySpec, str], Awaitable[None]]


class Submodules:
    """Remembers which URL each submodule's commit belongs to, and fetches it when it is read."""

    def __init__(self, graft: Graft) -> None:
        self._graft = graft
        self._followed: Callable[[], Iterable[RepositorySpec]] = tuple
        self._known: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def look_among(self, followed: Callable[[], Iterable[RepositorySpec]]) -> None:
        """Where the repositories that are followed now can be asked for."""
        self._followed = followed

    def learn(
        self, spec: RepositorySpec, modules: Mapping[str, str], commits: Mapping[str, str]
    ) -> None:
        """What a commit says: path to URL, and path to the submodule's commit."""
        for path, sha in commits.items():
            self._known[spec.id, sha] = (path, modules[path])
            self._known.move_to_end((spec.id, sha))
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    async def bring(self, spec: RepositorySpec, name: str, sha: str) -> None:
        """Have a submodule's commit in the clone. Invalid: it cannot be meant; Unavailable."""
        path, url = self._known.get((spec.id, sha), (name, ""))
        other = self._find(spec, url)
        if other is None:
            raise Invalid(
                f"the submodule {path[:200]!r} is none of the repositories here: add its "
                "repository, or turn submodules off for this one"
            )
        await self._graft(spec, other, sha)

    def _find(self, spec: RepositorySpec, url: str) -> RepositorySpec | None:
        wanted = place_of(url, parse_remote(spec.url)) if url else None
        same = (candidate for candidate in self._followed() if candidate.project == spec.project)
        return (
            next((candidate for candidate in same if _place(candidate) == wanted), None)
            if wanted
            else None
        )


def _place(spec: RepositorySpec) -> str | None:
    try:
        return place(parse_remote(spec.url))
    except Invalid:
        return None
