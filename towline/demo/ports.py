"""Ports of this machine for servers that must know theirs before they listen."""

import random
import socket
from contextlib import suppress

# Below the range from which the kernel takes ports for outgoing connections, so that only
# another listener can be in the way.
_PORTS = range(20_000, 30_000)


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nothing listens now."""
    found: set[int] = set()
    while len(found) < count:
        port = random.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)
