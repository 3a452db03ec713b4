"""Where workers have their files: where the user that they become can reach them."""

import hashlib
import os
from pathlib import Path

_RUN = Path("/run")
_OTHERS_READ = 0o005


def reachable_scratch(wanted: Path, run: Path = _RUN) -> Path:
    """The folder that root wants for others; one below `run`, if only root can reach the former.

    `run` must be writable by root alone: the name of what is made there can be guessed.
    """
    if _is_open(wanted):
        return wanted
    name = hashlib.sha256(os.fsencode(wanted.absolute())).hexdigest()[:16]
    place = run / f"towline-{name}"
    try:
        place.mkdir(exist_ok=True)
    except OSError:
        return wanted
    return place


def _is_open(path: Path) -> bool:
    """Whether everybody may look into all folders above a path, as far as they exist."""
    above = [parent for parent in path.absolute().parents if parent.exists()]
    return all(parent.stat().st_mode & _OTHERS_READ == _OTHERS_READ for parent in above)
