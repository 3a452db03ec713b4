"""Unpacks the layers of an artifact into the files of a commit."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import Invalid
from gitcache.domain import paths
from gitcache.domain.artifacts import LayerForm
from gitcache.domain.trees import SYMLINK, check_entry_name
from gitcache.render.unpack.archive import (
    MAX_BYTES,
    ArchiveLimits,
    ArchiveMember,
    gunzip,
    read_archive,
)

FILE = 0o100644
EXECUTABLE = 0o100755
_ARTIFACT = "the artifact"
_MAX_PATH = 1024
_MAX_DEPTH = 60
_MAX_TARGET = 1024
# A worker's answer has at most 64 MiB, and files that do not compress grow in a pack.
_MAX_FILES_BYTES = MAX_BYTES - (2 << 20)
_WHITEOUT = ".wh."


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file or symbolic link of a commit, with the mode bits of git."""

    mode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """A downloaded layer. `path` is that of a single file."""

    form: LayerForm
    path: str
    data: bytes


def unpack(layers: Sequence[PackedLayer]) -> dict[str, CommittedFile]:
    """Returns the files of all layers by path.

    Raises Invalid for malformed archives, devices, paths and links that leave the artifact, files
    in two layers, and content beyond the limits.
    """
    limits = ArchiveLimits(_ARTIFACT, size=_MAX_FILES_BYTES)
    files: dict[str, CommittedFile] = {}
    for layer in layers:
        layer_files = _layer_files(layer, limits)
        if duplicates := files.keys() & layer_files.keys():
            raise Invalid(f"{_ARTIFACT} has {min(duplicates)[:200]!r} in two layers")
        files |= layer_files
    folders = {folder for path in files for folder in _parent_folders(path)}
    if conflicts := folders & files.keys():
        raise Invalid(f"{_ARTIFACT} has {min(conflicts)[:200]!r} both as a file and as a folder")
    return files


def _layer_files(layer: PackedLayer, limits: ArchiveLimits) -> dict[str, CommittedFile]:
    if layer.form is LayerForm.FILE:
        limits.count_entry(len(layer.data))
        return {_checked_path(layer.path): CommittedFile(FILE, layer.data)}
    plain = gunzip(layer.data, _ARTIFACT) if layer.form is LayerForm.TAR_GZIP else layer.data
    files: dict[str, CommittedFile] = {}
    for member in read_archive(plain, limits, links=True):
        path = _checked_path(member.name)
        files[path] = _committed_file(path, member, files)
    return files


def _committed_file(
    path: str, member: ArchiveMember, files: dict[str, CommittedFile]
) -> CommittedFile:
    if not member.target:
        return CommittedFile(EXECUTABLE if member.executable else FILE, member.data)
    if member.is_hard:
        linked = files.get(_checked_path(member.target))
        if linked is None:
            raise Invalid(f"{_ARTIFACT} links {path[:200]!r} to a file that does not precede it")
        return linked
    target = member.target
    # The target of a link is followed later, so that only its text can leave the artifact.
    if len(target) > _MAX_TARGET or paths.join(posixpath.dirname(path), target) is None:
        raise Invalid(f"{_ARTIFACT} has a link {path[:200]!r} that leaves it")
    try:
        return CommittedFile(SYMLINK, target.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{_ARTIFACT} has a link {path[:200]!r} that is not UTF-8") from None


def _checked_path(name: str) -> str:
    """Returns a normal path. Raises Invalid for a path outside of the artifact."""
    path = name.removeprefix("./")
    if not path or len(path) > _MAX_PATH or "\0" in path or "\\" in path:
        raise Invalid(f"{_ARTIFACT} has a file with the forbidden name {name[:200]!r}")
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise Invalid(f"{_ARTIFACT} has the path {name[:200]!r}, which is outside of it or odd")
    if len(parts) > _MAX_DEPTH:
        raise Invalid(f"{_ARTIFACT} has folders that are more than {_MAX_DEPTH} levels deep")
    for part in parts:
        check_entry_name(part)
    if parts[-1].startswith(_WHITEOUT):
        raise Invalid(f"{_ARTIFACT} is a container image: it deletes {name[:200]!r} of a layer")
    return path


def _parent_folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
