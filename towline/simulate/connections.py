"""Measures and closes TCP connections of this process."""

import os
import random
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import closing

# tcpi_bytes_acked and tcpi_bytes_received of struct tcp_info, linux/tcp.h.
_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120


def traffic(ports: Collection[int]) -> tuple[int, int]:
    """Bytes sent (acknowledged by TCP) and received over open connections to these ports.

    Includes TLS and all other layers above TCP; zeros on systems other than Linux.
    """
    sent = received = 0
    for connection in _connections(ports):
        with closing(connection):
            info = connection.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_AT + _BYTES.size
            )
            up, down = _BYTES.unpack_from(info, _BYTES_AT)
            sent, received = sent + up, received + down
    return sent, received


def cut(ports: Collection[int], share: float) -> int:
    """Closes a random share (0 to 1) of the open connections to these ports; returns the number."""
    count = 0
    for connection in _connections(ports):
        with closing(connection):
            if random.random() < share:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _connections(ports: Collection[int]) -> Iterator[socket.socket]:
    """Yields duplicated sockets for these ports; closing a duplicate keeps the connection open."""
    folder = "/proc/self/fd"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            if not os.readlink(f"{folder}/{name}").startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            is_wanted = (
                connection.type == socket.SOCK_STREAM and connection.getpeername()[1] in ports
            )
        except (OSError, IndexError, TypeError):
            is_wanted = False
        if is_wanted:
            yield connection
        else:
            connection.close()
