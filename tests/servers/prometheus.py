"""A real Prometheus of the test run: the machine's own, else one built from pinned Go modules."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Self

from fleet.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.golang import find_go
from towline.demo.ports import free_ports
from towline.demo.processes import ProcessGroup

_MODULE = Path(__file__).with_name("prometheus_build")
_PACKAGE = "github.com/prometheus/prometheus/cmd/prometheus"
# Without the discovery of clouds it is half as large; nothing here is discovered.
_FLAGS = ("-trimpath", "-mod=readonly", "-tags", "remove_all_sd,netgo", "-ldflags", "-s -w")
_PATIENCE = 30.0
_CONFIG = "global: {scrape_interval: 1s}\nscrape_configs: []\n"


def ensure_prometheus() -> Path:
    """The program; built once, which takes some minutes. Unavailable: it cannot be."""
    if found := shutil.which("prometheus"):
        return Path(found)
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((_MODULE / name).read_bytes())
    folder = cache_folder() / "prometheus" / digest.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "prometheus"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.is_file():
            _build(program)
    return program


def _build(program: Path) -> None:
    unfinished = program.with_suffix(".unfinished")
    done = subprocess.run(
        [find_go(), "build", *_FLAGS, "-o", unfinished, _PACKAGE],
        cwd=_MODULE,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""},
    )
    if done.returncode:
        raise Unavailable(f"building prometheus failed: {done.stderr.strip()[-500:]}")
    unfinished.rename(program)


class Prometheus:
    """A server on a port of this machine that scrapes nothing; PromQL brings its own numbers."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="towline-prometheus-"))
        self._group = ProcessGroup()
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        (self._folder / "prometheus.yml").write_text(_CONFIG)
        words = [
            f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=error",
        ]
        self._group.spawn([str(self._program), *words], cwd=self._folder, log=self._folder / "log")
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the server and remove its data."""
        self._group.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError((self._folder / "log").read_text()[-2000:])
