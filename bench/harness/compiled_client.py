"""Measures a system over TLS by a client in Go, which needs less CPU than one in Python."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness.go_programs import go_program
from bench.harness.programs import cpu_seconds


@dataclass(frozen=True, slots=True)
class ClientResult:
    """Requests of one run. `cpu`: CPU seconds of the processes between user and backend."""

    requests: int
    bytes: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def cpu_per_request(self) -> float:
        """CPU time of a request in microseconds."""
        return self.cpu / self.requests * 1e6

    @property
    def throughput(self) -> float:
        """Megabytes per second."""
        return self.bytes / self.seconds / 1e6


@dataclass(frozen=True, slots=True)
class TlsTarget:
    """A route to the backend over TLS.

    `connect`: address of a CONNECT tunnel. `certificate`: files of a client certificate and its
    key. `pids`: processes between user and backend. `http2`: number of HTTP/2 connections that the
    requests share; 0: HTTP/1.1, each request at a time has its own.
    """

    name: str
    port: int
    authority: Path
    prefix: str = ""
    token: str = ""
    pids: Sequence[int] = ()
    connect: str = ""
    certificate: tuple[Path, Path] | None = None
    http2: int = 0

    def measure(self, path: str, connections: int, seconds: float, upload: int = 0) -> ClientResult:
        """Repeats a GET, or a POST of `upload` bytes, at full speed, `connections` at a time."""
        command = self._command(path, connections, seconds, upload)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            client.stdout.readline()
            before = cpu_seconds(self.pids)
            line = client.stdout.readline()
            cpu = cpu_seconds(self.pids) - before
        if client.returncode:
            raise RuntimeError(f"the client failed against {self.name}")
        found = json.loads(line)
        return ClientResult(found["requests"], found["bytes"], found["seconds"], cpu)

    def answers(self) -> bool:
        """Returns whether the system forwards a request."""
        command = self._command("/small", 1, 0.01)
        return not subprocess.run(command, capture_output=True, check=False).returncode

    def _command(self, path: str, connections: int, seconds: float, upload: int = 0) -> list[str]:
        options = {
            "address": f"127.0.0.1:{self.port}",
            "ca": self.authority,
            "connect": self.connect,
            "path": self.prefix + path,
            "token": self.token,
            "connections": connections,
            "http2": self.http2,
            "upload": upload,
            "duration": f"{seconds}s",
        }
        if self.certificate:
            options |= dict(zip(("cert", "key"), self.certificate, strict=True))
        return [str(go_program("client")), *(f"-{name}={value}" for name, value in options.items())]
