"""The ProxyCommand of ssh: `python -m gitcache.mirror.transport.connect HOST PORT`.

Opens a tunnel through the proxy in the environment (CONNECT, RFC 9110, 9.3.6), then copies
bytes between the tunnel and standard input and output.
"""

import base64
import os
import re
import socket
import sys
import threading
from urllib.parse import unquote, urlsplit

PROXY_VARIABLE = "TOWLINE_GIT_PROXY"

_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_CHUNK = 64 << 10
_MAX_HEAD = 16 << 10
_SECONDS = 15.0


def tunnel(proxy: str, host: str, port: str) -> socket.socket:
    """Connects to the host through the proxy. Raises OSError on failure."""
    parts = urlsplit(proxy)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), _SECONDS)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    head = _read_head(connection)
    status = _STATUS.match(head)
    if status is None or status[1] != b"200":
        # The rest of the head could be the answer of another server, which nobody may read here.
        raise OSError(f"the proxy refused: status {status[1].decode() if status else 'unknown'}")
    connection.settimeout(None)
    return connection


def _read_head(connection: socket.socket) -> bytes:
    """Reads the response head byte by byte: the next bytes belong to ssh."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(head) > _MAX_HEAD:
            raise OSError("the proxy closed the connection")
        head += byte
    return head


def _copy_stdin(connection: socket.socket) -> None:
    while data := os.read(sys.stdin.fileno(), _CHUNK):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def main() -> int:
    """Copies bytes until either side ends."""
    try:
        connection = tunnel(os.environ[PROXY_VARIABLE], sys.argv[1], sys.argv[2])
    except (OSError, IndexError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    threading.Thread(target=_copy_stdin, args=(connection,), daemon=True).start()
    while data := connection.recv(_CHUNK):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
