"""Files with certificates of trusted authorities: their versions, and those of the system."""

import os
import ssl
from collections.abc import Iterable
from pathlib import Path

Version = tuple[int, int, int] | None


def file_versions(paths: Iterable[Path]) -> tuple[Version, ...]:
    """Returns a value for each file that differs after a change; None for a missing file."""
    return tuple(_version(path) for path in paths)


def system_authorities() -> list[Path]:
    """Lists the file and the folder from which OpenSSL reads the system's authorities."""
    paths = ssl.get_default_verify_paths()
    return [Path(path) for path in (paths.cafile, paths.capath) if path]


def _version(path: Path) -> Version:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
