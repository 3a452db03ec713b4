"""Reads files of a commit and resolves their symbolic links within a given set."""

from collections.abc import Mapping

from core.spec.source import RepositorySpec
from gitcache.domain.objects import SYMLINK, Entry
from gitcache.domain.symlinks import resolve_links
from gitcache.ports import TreeReader


async def read_link_targets(
    reader: TreeReader, spec: RepositorySpec, entries: Mapping[str, Entry]
) -> dict[str, str]:
    """Reads the target text of each symbolic link among some entries."""
    links = {path: entry for path, entry in entries.items() if entry.mode == SYMLINK}
    if not links:
        return {}
    texts = await reader.blobs(spec, {entry.id for entry in links.values()})
    return {path: texts[link.id].decode("utf-8", "replace") for path, link in links.items()}


async def read_contents(
    reader: TreeReader,
    spec: RepositorySpec,
    wanted: Mapping[str, Entry],
    around: Mapping[str, Entry],
) -> dict[str, bytes]:
    """Reads files and resolves links within `around`. Raises Invalid for links that leave it."""
    resolved = resolve_links(wanted, around, await read_link_targets(reader, spec, around))
    found = await reader.blobs(spec, {entry.id for entry in resolved.values()})
    return {path: found[entry.id] for path, entry in resolved.items()}
