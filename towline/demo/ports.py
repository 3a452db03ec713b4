"""Ports of this machine for servers that must know theirs before they listen."""

import os
import random
import socket
import tempfile
from pathlib import Path

from fleet.runtime.clock import SystemClock

# Below the range from which the kernel takes ports for outgoing connections, so that only
# another listener can be in the way.
_PORTS = range(20_000, 30_000)
_KEPT_SECONDS = 120
"""For so long a port is given to nobody else: whoever got it may not listen yet."""


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nothing listens now, each given to one process only."""
    found: set[int] = set()
    while len(found) < count:
        port = random.choice(_PORTS)
        if _is_free(port) and _taken(port):
            found.add(port)
    return list(found)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _taken(port: int) -> bool:
    """Whether this process takes a port now; False if it was given to somebody of late."""
    folder = Path(tempfile.gettempdir()) / f"towline-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    mark = folder / str(port)
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        if SystemClock().now().timestamp() - mark.stat().st_mtime < _KEPT_SECONDS:
            return False
        mark.touch()
    return True
