"""Resolves symbolic links among the files of a commit, without a file system."""

import posixpath
from collections.abc import Mapping

from core.errors import Invalid
from gitcache.domain import paths
from gitcache.domain.trees import SYMLINK, Entry

_MAX_HOPS = 20


def resolve_links(
    entries: Mapping[str, Entry], reachable: Mapping[str, Entry], targets: Mapping[str, str]
) -> dict[str, Entry]:
    """Replaces each link among the entries by its target file in `reachable`.

    `targets` maps the path of each link to its text. Raises Invalid, without naming the target,
    for links that leave the set, point to nothing or form a cycle.
    """
    return {
        path: _resolve_link(path, reachable, targets) if entry.mode == SYMLINK else entry
        for path, entry in entries.items()
    }


def _resolve_link(path: str, reachable: Mapping[str, Entry], targets: Mapping[str, str]) -> Entry:
    current = path
    for _ in range(_MAX_HOPS):
        target = paths.join(posixpath.dirname(current), targets[current])
        entry = reachable.get(target) if target is not None else None
        if target is None or entry is None:
            break
        if entry.mode != SYMLINK:
            return entry
        current = target
    raise Invalid(
        f"{path} is a symbolic link that does not lead to a file in this service's folder"
    )
