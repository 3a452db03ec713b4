"""The control plane under test: a temporary one, or an existing one."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.errors import Unavailable
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.git_server import GitServer
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup
from towline.simulate.usage import MetricsUsage, ProcessUsage, UsageReader

_PROGRAM = (sys.executable, "-c", "from towline.cli import main; main()", "serve")
_READY_S = 90.0
_END_S = 30.0


@dataclass(frozen=True, slots=True)
class ControlPlaneAddresses:
    """Addresses of a control plane.

    `agents`: addresses of its agent listeners. `authority`: CA that agents trust (PEM text).
    `metrics`: URL of its metrics. `git`: a Git server that it can reach, or None.
    """

    target: ControlPlaneTarget
    agents: tuple[str, ...]
    authority: str
    gauge: UsageReader
    metrics: str = ""
    git: GitServer | None = None

    def client(self) -> GraphQLClient:
        """Creates a client of its API."""
        return GraphQLClient(self.target, timeout=120.0)


def existing_control_plane(
    target: ControlPlaneTarget, agents: tuple[str, ...], authority: str, metrics: str
) -> ControlPlaneAddresses:
    """Describes an existing control plane; without metrics its costs are unknown."""
    return ControlPlaneAddresses(target, agents, authority, MetricsUsage(metrics), metrics)


class TemporaryControlPlane:
    """Temporary control plane on free local ports, with a Git server; removed after the block.

    `settings`: additional environment variables.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings or {}
        self._closing = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="towline-simulate-"))
        self._closing.callback(shutil.rmtree, self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self._group = ProcessGroup()
        self._closing.callback(self._group.stop)
        self._git = self._closing.enter_context(GitServer(self.folder / "git"))
        self._ports = free_ports(4)
        try:
            self.start()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def pid(self) -> int:
        """Id of the control plane's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def hub(self) -> ControlPlaneAddresses:
        """Addresses of the running control plane."""
        _, http, agents, metrics = self._ports
        token = (self._data / "admin.token").read_text()
        return ControlPlaneAddresses(
            ControlPlaneTarget(f"http://127.0.0.1:{http}", token),
            (f"127.0.0.1:{agents}",),
            (self._data / "tls" / "ca.crt").read_text(),
            ProcessUsage(self.pid),
            f"http://127.0.0.1:{metrics}/metrics",
            self._git,
        )

    def start(self) -> None:
        """Starts or restarts it. Unavailable: it ended, or did not become ready in time."""
        names = ("--listen", "--listen-http", "--listen-agents", "--listen-metrics")
        addresses = [f"127.0.0.1:{port}" for port in self._ports]
        flags = [argument for pair in zip(names, addresses, strict=True) for argument in pair]
        log = self.folder / "control-plane.log"
        offset = log.stat().st_size if log.exists() else 0
        self._process = self._group.spawn(
            [*_PROGRAM, "--data", str(self._data), *flags],
            log=log,
            env={**_clean_environment(), **self._settings},
        )
        until = time.monotonic() + _READY_S
        while b"serve.ready" not in log.read_bytes()[offset:]:
            if self._process.poll() is not None or time.monotonic() > until:
                log_tail = log.read_text()[offset:][-2000:]
                raise Unavailable(f"the control plane did not start:\n{log_tail}")
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stops it, and waits until it ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(_END_S)

    @property
    def _data(self) -> Path:
        return self.folder / "data"


def _clean_environment() -> dict[str, str]:
    """Environment without settings of another control plane."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOWLINE_")}
