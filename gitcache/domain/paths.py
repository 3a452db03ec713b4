"""Paths of folders and files in a commit: relative, with `/`, without `.` and `..`."""

import posixpath
from functools import lru_cache

from core.errors import Invalid

_MAX_PATH = 1024


@lru_cache(32_768)
def folder_path(text: str) -> str:
    """Normalizes a folder path from user input; empty for the root of the repository.

    Raises Invalid for malformed paths and paths outside the repository.
    """
    if len(text) > _MAX_PATH or "\0" in text or "\\" in text:
        raise Invalid("is not a folder path", field="folder")
    path = join("", text.lstrip("/"))
    if path is None:
        raise Invalid(f"{text!r} leaves the repository", field="folder")
    return path


def join(base: str, relative: str) -> str | None:
    """Resolves `relative` from the folder `base`; None outside the repository."""
    if relative.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(base, relative))
    if path == ".." or path.startswith("../"):
        return None
    return "" if path == "." else path


def resolve_inside(folder: str, relative: str, field: str) -> str:
    """Resolves `relative` from a folder. Raises Invalid, naming `field`, outside the repository."""
    path = join(folder, relative)
    if path is None:
        raise Invalid(f"{relative[:200]!r} leaves the repository", field=field)
    return path


def is_below(path: str, folder: str) -> bool:
    """True if a path is the folder itself or inside it."""
    return not folder or path == folder or path.startswith(folder + "/")


def relative_to(path: str, folder: str) -> str:
    """Makes a path relative to a folder: `.` for itself, `../base` for a sibling."""
    return "." if path == folder else posixpath.relpath(f"/{path}", f"/{folder}")


def child(folder: str, name: str) -> str:
    """Joins a folder, which may be the root, and a name."""
    return f"{folder}/{name}" if folder else name


def link_target(path: str, text: str) -> str:
    """Resolves a link at `path`, relative to the same folder as `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
