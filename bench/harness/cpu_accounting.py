"""Accounts CPU time of all descendant processes by role."""

import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_STORES = ("postgres", "redis-server")


def cpu_seconds_by_role(agents: Collection[int]) -> Mapping[str, float]:
    """CPU seconds of `users` (this process), `agents` (those pids), `stores` and `replicas`.

    An ended process counts for its parent; ended children of this process count as replicas.
    """
    found = defaultdict[str, float](float)
    stats = {pid: _stat(pid) for pid in _pids()}
    me = os.getpid()
    for pid, stat in stats.items():
        if stat is None or not _is_below(pid, me, stats):
            continue
        name, _, own, ended = stat
        kind = "agents" if pid in agents else "stores" if name in _STORES else "replicas"
        found["users" if pid == me else kind] += own
        found["replicas" if pid == me else kind] += ended
    return found


Stat = tuple[str, int, float, float]


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def _stat(pid: int) -> Stat | None:
    """Name, parent, and CPU seconds of a process and its ended children; see proc(5)."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    user, system, ended_user, ended_system = map(int, fields[11:15])
    name = head.partition("(")[2]
    return name, int(fields[1]), (user + system) / _TICKS, (ended_user + ended_system) / _TICKS


def _is_below(pid: int, top: int, stats: Mapping[int, Stat | None]) -> bool:
    while pid != top:
        stat = stats.get(pid)
        if stat is None or stat[1] == 0:
            return False
        pid = stat[1]
    return True
