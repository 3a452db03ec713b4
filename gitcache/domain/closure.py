"""The files of some folders of one commit, with symbolic links resolved without a file system."""

import posixpath
from collections.abc import Mapping

from fleet.errors import Invalid
from gitcache.domain import paths
from gitcache.domain.objects import SYMLINK, Entry

_MAX_HOPS = 20


def resolve_links(
    wanted: Mapping[str, Entry], around: Mapping[str, Entry], targets: Mapping[str, str]
) -> dict[str, Entry]:
    """The wanted entries with each link replaced by the file it points to in the set `around`.

    `targets` maps the path of each link to its text. Invalid: a link that leaves the set, points
    to nothing, or runs in a circle; its target is not told.
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
    raise Invalid(f"{path} is a symbolic link to no file of this service's folder: refused")
