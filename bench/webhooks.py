"""Measures the effect of forged webhooks on the API: `python -m bench.webhooks`.

Times small API queries of one control plane process, alternately alone and while another process
sends webhooks with wrong signatures as fast as possible. Everything shares this machine.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import orjson

from bench.report import BenchReport
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

QUERIES = 150
ROUNDS = 4
PAUSE = 0.01
CONNECTIONS = (8, 500)
_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]
_QUERY = orjson.dumps({"query": "{ clusters(first: 10) { edges { node { id handle } } } }"})
_CREATE = """mutation { createGitRepository(attributes:
  {url: "https://git.example.org/shop.git", webhookSecret: "kept"}) { id } }"""


class ControlPlaneServer:
    """Control plane with an empty store, and one connection to its API."""

    def __init__(self, folder: Path) -> None:
        self.port, agents = free_ports(2)
        self._folder = folder
        self._agents = agents
        self._group = ProcessGroup()
        self._token = ""
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=30)

    def start(self) -> None:
        """Starts it, and waits until it responds."""
        listen = {
            "TOWLINE_DATA": str(self._folder / "data"),
            "TOWLINE_LISTEN_HTTP": f"127.0.0.1:{self.port}",
            "TOWLINE_LISTEN": f"127.0.0.1:{self._agents}",
            "TOWLINE_LISTEN_METRICS": "off",
        }
        log = self._folder / "serve.log"
        self._group.spawn([*_PROGRAM, "serve"], log=log, env=os.environ | listen)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                self._token = (self._folder / "data" / "admin.token").read_text()
                self.query(_QUERY)
                return
            except (OSError, HTTPException):
                self._connection.close()
                time.sleep(0.1)
        raise TimeoutError(log.read_text()[-2000:])

    def stop(self) -> None:
        """Stops it."""
        self._connection.close()
        self._group.stop()

    def query(self, body: bytes) -> dict:
        """Sends a request and returns the response."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request("POST", "/gql", body, headers)
        return orjson.loads(self._connection.getresponse().read())

    def times(self, count: int) -> list[float]:
        """Milliseconds of sequential queries."""
        times = []
        for _ in range(count):
            started = time.perf_counter()
            self.query(_QUERY)
            times.append((time.perf_counter() - started) * 1000)
            time.sleep(PAUSE)
        return times

    def times_beside(self, connections: int, repository: str) -> tuple[list[float], float]:
        """The same during forged webhooks, and the number of refusals per second."""
        words = [str(self.port), f"/webhooks/git/github/{repository}", str(connections)]
        command = [sys.executable, "-m", "bench.git_harness.webhook_forger", *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forger:
            time.sleep(1)
            found = self.times(QUERIES)
            out, _ = forger.communicate(b"\n")
        return found, float(out)


def p95(times: list[float]) -> float:
    """95th percentile."""
    return statistics.quantiles(times, n=20)[-1]


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("webhooks")
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlaneServer(Path(folder))
        try:
            plane.start()
            made = plane.query(orjson.dumps({"query": _CREATE}))["data"]["createGitRepository"]
            plane.times(QUERIES)
            alone: list[float] = []
            beside: dict[int, list[float]] = {number: [] for number in CONNECTIONS}
            refused: dict[int, list[float]] = {number: [] for number in CONNECTIONS}
            for _ in range(ROUNDS):
                alone += plane.times(QUERIES)
                for number in CONNECTIONS:
                    times, answered = plane.times_beside(number, made["id"])
                    beside[number] += times
                    refused[number].append(answered)
            for number in CONNECTIONS:
                report.add(
                    f"API p95 during forged webhooks over {number} connections",
                    [p95(beside[number])],
                    "ms",
                    baseline="alone",
                    baseline_values=[p95(alone)],
                    goal=1.5,
                )
                report.add("  forged webhooks refused", refused[number], "1/s")
        finally:
            plane.stop()
    report.write()


if __name__ == "__main__":
    main()
