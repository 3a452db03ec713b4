"""HAProxy in front of a server of a test, with the PROXY protocol."""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

ADDRESS = "127.0.0.2"
"""HAProxy's own address, from which it connects to the server."""
_CONFIGURATION = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
"""
_LISTEN = """
listen {name}
  bind fd@{fd}
  server server {server} {sends} source {address}
"""


@contextlib.contextmanager
def haproxy(folder: Path, **servers: tuple[str, str]) -> Generator[dict[str, int]]:
    """Runs HAProxy; the port of each server.

    `servers`: address and option of HAProxy, such as `send-proxy-v2`, for each name.
    """
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("haproxy is not installed: .ci/run installs it")
    with contextlib.ExitStack() as ends:
        # HAProxy inherits listening sockets, so that nobody else takes their ports.
        listening = {
            name: ends.enter_context(socket.create_server(("127.0.0.1", 0))) for name in servers
        }
        text = _CONFIGURATION + "".join(
            _LISTEN.format(
                name=name, fd=listening[name].fileno(), server=server, sends=sends, address=ADDRESS
            )
            for name, (server, sends) in servers.items()
        )
        configuration = folder / "haproxy.cfg"
        configuration.write_text(text)
        process = subprocess.Popen(
            [program, "-db", "-f", configuration],
            pass_fds=[bound.fileno() for bound in listening.values()],
        )
        ends.callback(process.wait)
        ends.callback(process.kill)
        yield {name: bound.getsockname()[1] for name, bound in listening.items()}
