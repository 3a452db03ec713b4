"""Computes the changed files of a commit from edits."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import Invalid
from core.spec.edits import CopyFolder, DeleteFile, Edit, PutFile, SetField, SetImage
from core.spec.source import RepositorySpec
from gitcache.domain import paths
from gitcache.domain.edits import MAX_EDITS, MAX_FILE, file_path, set_field, set_image
from gitcache.domain.trees import Entry
from gitcache.ports import TreeReader

_FILE = 0o100644
_MAX_FILES = 10_000


@dataclass(slots=True)
class Changeset:
    """Changes of a commit: contents of files, copied entries, deleted paths."""

    contents: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    copied: dict[str, Entry] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def put_file(self, path: str, content: bytes, mode: int = _FILE) -> None:
        """Sets the content of a file. Raises Invalid beyond the limit."""
        if len(content) > MAX_FILE:
            raise Invalid(f"{path} would have more than {MAX_FILE:,} bytes")
        self.forget(path)
        self.contents[path], self.modes[path] = content, mode

    def forget(self, path: str) -> None:
        """Drops all earlier changes at and below this path."""
        for table in (self.contents, self.modes, self.copied):
            for inner in [inner for inner in table if paths.is_below(inner, path)]:
                del table[inner]
        self.deleted.discard(path)


class ChangesetBuilder:
    """Applies edits in order to the tree of a commit; later edits see earlier ones."""

    def __init__(self, reader: TreeReader, spec: RepositorySpec, tree: str) -> None:
        self._reader = reader
        self._spec = spec
        self._tree = tree
        self._changeset = Changeset()

    async def apply_edits(self, edits: Sequence[Edit]) -> Changeset:
        """Applies all edits. Raises Invalid if one cannot be applied."""
        if not 0 < len(edits) <= MAX_EDITS:
            raise Invalid(f"a commit must have 1 to {MAX_EDITS} edits")
        for edit in edits:
            await self._apply(edit)
        if len(self._changeset.contents) + len(self._changeset.copied) > _MAX_FILES:
            raise Invalid(f"a commit can change at most {_MAX_FILES:,} files")
        return self._changeset

    async def _apply(self, edit: Edit) -> None:
        match edit:
            case PutFile(path, content):
                self._changeset.put_file(file_path(path), content)
            case DeleteFile(path):
                await self._delete(file_path(path))
            case CopyFolder(source, target):
                await self._copy(paths.folder_path(source), file_path(target))
            case SetField(path, name, value, document):
                await self._rewrite(path, lambda text: set_field(text, name, value, document))
            case SetImage(path, image, tag):
                await self._rewrite(path, lambda text: set_image(text, image, tag))

    async def _delete(self, path: str) -> None:
        self._changeset.forget(path)
        for file in await self._files(path):
            self._changeset.deleted.add(file)

    async def _copy(self, source: str, target: str) -> None:
        """Copies the folder as it is in the commit, without earlier edits."""
        files = await self._files(source)
        if not files:
            raise Invalid(f"there is no folder {source!r} to copy", field="source")
        for path, entry in files.items():
            copy = paths.child(target, paths.relative_to(path, source))
            self._changeset.forget(copy)
            self._changeset.copied[copy] = entry

    async def _rewrite(self, text: str, change: Callable[[str], str]) -> None:
        path = file_path(text)
        mode, content = await self._content(path)
        try:
            before = content.decode()
        except UnicodeDecodeError:
            raise Invalid(f"{path} is not UTF-8 text", field="path") from None
        try:
            after = await asyncio.to_thread(change, before)
        except Invalid as error:
            raise Invalid(f"{path}: {error.message}") from None
        self._changeset.put_file(path, after.encode(), mode)

    async def _content(self, path: str) -> tuple[int, bytes]:
        if path in self._changeset.contents:
            return self._changeset.modes[path], self._changeset.contents[path]
        entry = self._changeset.copied.get(path)
        if entry is None and path not in self._changeset.deleted:
            entry = (await self._reader.ids(self._spec, self._tree, [path]))[path]
        if entry is None or not entry.is_file:
            raise Invalid(f"there is no file {path!r} to change", field="path")
        return entry.mode, (await self._reader.blobs(self._spec, [entry.id]))[entry.id]

    async def _files(self, path: str) -> Mapping[str, Entry]:
        """Lists all files of the commit at or below a path, by full path."""
        entry = (await self._reader.ids(self._spec, self._tree, [path]))[path]
        if entry is None:
            return {}
        if not entry.is_tree:
            return {path: entry}
        below = await self._reader.walk(self._spec, entry.id)
        return {paths.child(path, name): entry for name, entry in below.items()}
