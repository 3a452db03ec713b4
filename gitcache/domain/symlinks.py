"""Resolves symbolic links among the files of a commit, without a file system."""

import posixpath
from collections.abc import Mapping

from core.errors import Invalid
from gitcache.domain import paths
from gitcache.domain.trees import SYMLINK, Entry

_MAX_HOPS = 20


def resolve_links(
    wanted: Mapping[str, Entry], around: Mapping[str, Entry], targets: Mapping[str, str]
) -> dict[str, Entry]:
    """Replaces each link among the wanted entries by its target file in `around`.

    `targets` maps the path of each link to its text. Raises Invalid, without naming the target,
    for links that leave the set, point to nothing or form a cycle.
    """
    return {
        path: _final(path, around, targets) if entry.mode == SYMLINK else entry
        for path, entry in wanted.items()
    }


def _final(path: str, entries: Mapping[str, Entry], targets: Mapping[str, str]) -> Entry:
    here = path
    for _ in range(_MAX_HOPS):
        target = paths.join(posixpath.dirname(here), targets[here])
        found = entries.get(target) if target is not None else None
        if target is None or found is None:
            break
        if found.mode != SYMLINK:
            return found
        here = target
    raise Invalid(
        f"{path} is a symbolic link that does not lead to a file in this service's folder"
    )
