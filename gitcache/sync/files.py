"""Reads files of a commit: with resolved symbolic links, or those with some endings."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from core.errors import Invalid
from core.manifest_files import is_in_hidden_folder
from core.spec.source import MAX_READ_BYTES, MAX_READ_FILES, RepositorySpec
from gitcache.domain import paths
from gitcache.domain.commits import CommitRecord
from gitcache.domain.symlinks import resolve_links
from gitcache.domain.trees import SYMLINK, Entry
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
    entries: Mapping[str, Entry],
    reachable: Mapping[str, Entry],
) -> dict[str, bytes]:
    """Reads files and resolves links within `reachable`. Raises Invalid for links that leave it."""
    resolved = resolve_links(entries, reachable, await read_link_targets(reader, spec, reachable))
    contents = await reader.blobs(spec, {entry.id for entry in resolved.values()})
    return {path: contents[entry.id] for path, entry in resolved.items()}


async def read_folder(
    reader: TreeReader,
    spec: RepositorySpec,
    record: CommitRecord,
    folder: str,
    endings: tuple[str, ...],
) -> dict[str, bytes]:
    """Reads the files below a folder whose names have one of these endings, by their paths.

    Leaves out hidden folders and symbolic links. Raises Invalid for an unknown folder, or for too
    many files or bytes.
    """
    tree = record.tree
    if folder:
        entry = (await reader.ids(spec, tree, [folder]))[folder]
        if entry is None or not entry.is_tree:
            raise Invalid(f"there is no folder {folder!r} in commit {record.commit.sha[:12]}")
        tree = entry.id
    blob_ids = {
        paths.child(folder, path): entry.id
        for path, entry in sorted((await reader.walk(spec, tree)).items())
        if entry.is_file and path.endswith(endings) and not is_in_hidden_folder(PurePosixPath(path))
    }
    if len(blob_ids) > MAX_READ_FILES:
        raise Invalid(f"{len(blob_ids):,} files in {folder or '/'}, at most {MAX_READ_FILES:,}")
    contents = await reader.blobs(spec, set(blob_ids.values()))
    size = sum(len(contents[id]) for id in blob_ids.values())
    if size > MAX_READ_BYTES:
        raise Invalid(f"{size:,} bytes of files in {folder or '/'}, at most {MAX_READ_BYTES:,}")
    return {path: contents[id] for path, id in blob_ids.items()}
