"""Finds a scratch folder for workers that their unprivileged user can access."""

import hashlib
import os
from pathlib import Path

_RUN = Path("/run")
_OTHERS_READ = 0o005


def reachable_scratch(preferred: Path, run: Path = _RUN) -> Path:
    """Returns the preferred folder, or one below `run` if only root can access it.

    `run` must be writable only by root, because the name of the folder is predictable.
    """
    if _is_accessible(preferred):
        return preferred
    name = hashlib.sha256(os.fsencode(preferred.absolute())).hexdigest()[:16]
    folder = run / f"towline-{name}"
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return preferred
    return folder


def _is_accessible(path: Path) -> bool:
    """True if all users can access the existing folders above a path."""
    above = [parent for parent in path.absolute().parents if parent.exists()]
    return all(parent.stat().st_mode & _OTHERS_READ == _OTHERS_READ for parent in above)
