"""Memory limit of the container of this process (cgroups(7), versions 1 and 2)."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_UNLIMITED = 1 << 60
_ROOT = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def container_memory(root: Path = _ROOT, own_cgroup: Path = _OWN_CGROUP) -> int | None:
    """Returns the lowest limit, in bytes, from this process's cgroup up to the root, or None.

    `root` is the mount point of cgroups. The file `own_cgroup` names this process's cgroup.
    """
    limits = [
        limit for path in _limit_files(root, own_cgroup) if (limit := _read_limit(path)) is not None
    ]
    return min(limits, default=None)


def _limit_files(root: Path, own_cgroup: Path) -> Iterator[Path]:
    """Yields files that may contain a limit, also for containers that see the host's cgroups."""
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        controllers, _, text = line.partition(":")[2].partition(":")
        if not controllers:
            base, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(text)
        for parent in (group, *group.parents):
            if ".." not in parent.parts:
                yield base / str(parent).lstrip("/") / name


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None
