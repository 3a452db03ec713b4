"""Folder and file paths inside a commit: always relative, with `/`, without `.` and `..`."""

import posixpath
from functools import lru_cache

from fleet.errors import Invalid

_MAX_PATH = 1024


@lru_cache(32_768)
def folder_path(text: str) -> str:
    """The normal form of a folder a person has typed; empty for the root of the repository.

    Invalid: it leaves the repository or is no path.
    """
    if len(text) > _MAX_PATH or "\0" in text or "\\" in text:
        raise Invalid("is not a folder path", field="folder")
    inside = join("", text.lstrip("/"))
    if inside is None:
        raise Invalid(f"{text!r} leaves the repository", field="folder")
    return inside


def join(base: str, relative: str) -> str | None:
    """`relative` as seen from the folder `base`; None if that leaves the repository."""
    if relative.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(base, relative)) if base or relative else ""
    if path == ".." or path.startswith("../"):
        return None
    return "" if path == "." else path


def below(path: str, folder: str) -> bool:
    """Whether a path is the folder itself or inside it."""
    return not folder or path == folder or path.startswith(folder + "/")


def relative(path: str, folder: str) -> str:
    """A path as seen from a folder: `.` for itself, `../base` for a neighbour."""
    return posixpath.relpath(f"/{path}", f"/{folder}")


def child(folder: str, name: str) -> str:
    """The path of something in a folder, which may be the root."""
    return f"{folder}/{name}" if folder else name


def relative_target(path: str, text: str) -> str:
    """Where a link at `path` points, relative to the same folder as `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
