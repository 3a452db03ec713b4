"""Free local ports for servers that must know their port before they listen."""

import os
import random
import socket
import tempfile
from pathlib import Path

from core.runtime.clock import SystemClock

# Below the kernel's range for outgoing connections, so that only other listeners can conflict.
_PORTS = range(20_000, 30_000)
_RESERVED_SECONDS = 120
"""Seconds that a port stays reserved, as its process may not listen yet."""


def free_ports(count: int) -> list[int]:
    """Reserves local ports on which nothing listens."""
    ports: set[int] = set()
    while len(ports) < count:
        port = random.choice(_PORTS)
        if _is_free(port) and _reserve(port):
            ports.add(port)
    return list(ports)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reserve(port: int) -> bool:
    """Reserves a port; returns False if another process reserved it recently."""
    folder = Path(tempfile.gettempdir()) / f"towline-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    marker = folder / str(port)
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        if SystemClock().now().timestamp() - marker.stat().st_mtime < _RESERVED_SECONDS:
            return False
        marker.touch()
    return True
