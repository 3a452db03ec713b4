"""A real Prometheus of the test run: the machine's own."""

import shutil
import time
import urllib.request
from pathlib import Path

from tests.servers.server import Server
from towline.demo.ports import free_ports

_PATIENCE = 30.0
_CONFIG = "global: {scrape_interval: 1s}\nscrape_configs: []\n"


def find_prometheus() -> Path | None:
    """The program on the PATH, as Debian's package `prometheus` puts it there."""
    found = shutil.which("prometheus")
    return Path(found) if found else None


class Prometheus(Server):
    """A server on a port of this machine that scrapes nothing; PromQL brings its own numbers."""

    def __init__(self, program: Path) -> None:
        self._program = program
        super().__init__("prometheus")
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        """Address of its API."""
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> None:
        (self._folder / "prometheus.yml").write_text(_CONFIG)
        words = [
            f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=error",
        ]
        self._group.spawn([str(self._program), *words], cwd=self._folder, log=self._folder / "log")
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError((self._folder / "log").read_text()[-2000:])
