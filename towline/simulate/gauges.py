"""What a control plane uses: processor time and memory."""

import os
import re
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet.errors import Unavailable

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_BYTES = 16 << 20
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds since its start, and resident bytes."""

    cpu: float
    memory: int


class Gauge(Protocol):
    """Reads what a control plane uses."""

    def read(self) -> Usage:
        """Now. Unavailable: it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessGauge:
    """A process of this machine with its children, as proc(5) tells."""

    pid: int

    def read(self) -> Usage:
        """As `Gauge.read`."""
        try:
            used, children = [_usage(self.pid)], _children(self.pid)
        except OSError as error:
            raise Unavailable(f"process {self.pid} cannot be measured: {error.strerror}") from None
        for child in children:
            # It may have ended since.
            with suppress(OSError):
                used.append(_usage(child))
        return _sum(used)


@dataclass(frozen=True, slots=True)
class MetricsGauge:
    """A control plane that shows metrics; its workers that render are not in them."""

    url: str

    def read(self) -> Usage:
        """As `Gauge.read`; zeros where there is no URL."""
        if not self.url:
            return Usage(0.0, 0)
        found = samples(self.url)
        cpu = found.get("process_cpu_seconds_total", 0.0)
        return Usage(cpu, int(found.get("process_resident_memory_bytes", 0.0)))


def samples(url: str) -> dict[str, float]:
    """The samples without labels that a page of metrics shows. Unavailable."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read(_MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise Unavailable(f"the metrics at {url} cannot be read: {error}") from None
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.M)}


def _usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, pages * _PAGE)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may have ended since.
        with suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _sum(usages: list[Usage]) -> Usage:
    return Usage(sum(usage.cpu for usage in usages), sum(usage.memory for usage in usages))
