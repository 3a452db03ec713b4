"""Measures CPU time and memory of a control plane."""

import os
import re
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from core.errors import Unavailable

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MAX_BYTES = 16 << 20
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the start, and resident memory in bytes."""

    cpu: float
    memory: int


class UsageReader(Protocol):
    """Reads the resource usage of a control plane."""

    def read(self) -> Usage:
        """Returns the current usage. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Reads the usage of a local process and its children from proc(5)."""

    pid: int

    def read(self) -> Usage:
        """See `UsageReader.read`."""
        try:
            usages, children = [_usage(self.pid)], _children(self.pid)
        except OSError as error:
            raise Unavailable(f"cannot measure process {self.pid}: {error.strerror}") from None
        for child in children:
            # The child may have ended since.
            with suppress(OSError):
                usages.append(_usage(child))
        return Usage(sum(usage.cpu for usage in usages), sum(usage.memory for usage in usages))


@dataclass(frozen=True, slots=True)
class MetricsUsage:
    """Reads the usage from a control plane's metrics, which do not include render workers."""

    url: str

    def read(self) -> Usage:
        """See `UsageReader.read`; zeros without a URL."""
        if not self.url:
            return Usage(0.0, 0)
        metrics = samples(self.url)
        cpu = metrics.get("process_cpu_seconds_total", 0.0)
        return Usage(cpu, int(metrics.get("process_resident_memory_bytes", 0.0)))


def samples(url: str) -> dict[str, float]:
    """Returns the samples without labels of a metrics page. Raises Unavailable."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read(_MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read the metrics at {url}: {error}") from None
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.M)}


def _usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, pages * _PAGE)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may have ended since.
        with suppress(OSError):
            children += map(int, (task / "children").read_text().split())
    return children
