"""Atomic file writes: after a crash a file is complete or unchanged."""

import os
from pathlib import Path

OWNER_ONLY = 0o600


def write_atomically(path: Path, data: bytes, *, mode: int = OWNER_ONLY) -> None:
    """Writes or replaces a file atomically, with this mode from its first byte.

    Returns after data and name are synced to disk. On OSError the previous file is unchanged.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
