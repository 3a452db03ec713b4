"""The files of a folder that contain manifests: one rule for folders on disk and in Git."""

from pathlib import PurePosixPath

ENDINGS = (".yaml", ".yml", ".json")
"""Endings of the names of manifest files."""


def is_manifest(path: PurePosixPath) -> bool:
    """Returns whether a file contains manifests, by its path relative to the folder.

    The caller leaves out symbolic links.
    """
    return path.name.endswith(ENDINGS) and not is_in_hidden_folder(path)


def is_in_hidden_folder(path: PurePosixPath) -> bool:
    """Returns whether the name of one of the folders above a file begins with a dot."""
    return any(name.startswith(".") for name in path.parts[:-1])
