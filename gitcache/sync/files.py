"""Reading files of a commit with their symbolic links resolved among what may be seen."""

from collections.abc import Mapping

from fleet.source import RepositorySpec
from gitcache.domain.closure import resolve_links
from gitcache.domain.objects import SYMLINK, Entry
from gitcache.ports import TreeReader


async def links_of(
    reader: TreeReader, spec: RepositorySpec, entries: Mapping[str, Entry]
) -> dict[str, str]:
    """The text of each symbolic link among some entries."""
    links = {path: entry for path, entry in entries.items() if entry.mode == SYMLINK}
    if not links:
        return {}
    texts = await reader.blobs(spec, {entry.id for entry in links.values()})
    return {path: texts[link.id].decode("utf-8", "replace") for path, link in links.items()}


async def contents(
    reader: TreeReader,
    spec: RepositorySpec,
    wanted: Mapping[str, Entry],
    around: Mapping[str, Entry],
) -> dict[str, bytes]:
    """Contents of the wanted files; links are resolved among `around`. Invalid: one leaves it."""
    resolved = resolve_links(wanted, around, await links_of(reader, spec, around))
    found = await reader.blobs(spec, {entry.id for entry in resolved.values()})
    return {path: found[entry.id] for path, entry in resolved.items()}
