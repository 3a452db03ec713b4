"""The TCP connections of this process: what went through them, and cutting them."""

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
    """Bytes sent (and acknowledged by TCP) and received over open connections to these ports.

    TLS and all else above TCP is counted; zeros where the system is not Linux.
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
    """End a share (0 to 1) of the open connections to these ports, drawn by chance; how many."""
    count = 0
    for connection in _connections(ports):
        with closing(connection):
            if random.random() < share:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _connections(ports: Collection[int]) -> Iterator[socket.socket]:
    """Sockets connected to these ports; the caller closes them, which ends no connection."""
    folder = "/proc/self/fd"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            if not os.readlink(f"{folder}/{name}").startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            is_wanted = one.type == socket.SOCK_STREAM and one.getpeername()[1] in ports
        except (OSError, IndexError, TypeError):
            is_wanted = False
        if is_wanted:
            yield one
        else:
            one.close()
