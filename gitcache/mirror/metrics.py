"""Prometheus metrics of git access: polls, fetches, bytes and disk usage."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core.errors import Invalid, TowlineError
from gitcache.mirror.disk import Disk
from gitcache.mirror.transport.route import CredentialsRefused
from gitcache.ports import CommitsRejected

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class GitMetrics(Collector):
    """A collector without labels per repository, so that it stays small."""

    def __init__(self, disk: Disk) -> None:
        self._polls = Counter(
            "towline_git_polls",
            "Number of polls for refs, by method and result",
            ["way", "result"],
            registry=None,
        )
        self._poll_seconds = Histogram(
            "towline_git_poll_seconds",
            "Duration of polls for refs, in seconds",
            ["way"],
            buckets=_SECONDS,
            registry=None,
        )
        self._fetches = Counter(
            "towline_git_fetches",
            "Number of fetches, by method and result",
            ["way", "result"],
            registry=None,
        )
        self._fetch_seconds = Histogram(
            "towline_git_fetch_seconds",
            "Duration of fetches, in seconds",
            ["way"],
            buckets=_SECONDS,
            registry=None,
        )
        self.packed_bytes = Counter(
            "towline_git_packed_bytes",
            "Bytes of packs fetched without a git process",
            registry=None,
        )
        self._disk = Gauge(
            "towline_git_disk_used_ratio", "Used share of the disk, 0 to 1", registry=None
        )
        self._disk.set_function(disk.used_share)

    def measure_poll(self, method: str) -> AbstractContextManager["MeasuredOutcome"]:
        """Measures one poll for refs by `http` or `git`."""
        return _measure(self._polls, self._poll_seconds, method)

    def measure_fetch(self, method: str) -> AbstractContextManager["MeasuredOutcome"]:
        """Measures one fetch: `clone`, `quick`, `lean`, `git`, `files`, `graft` or `artifact`."""
        return _measure(self._fetches, self._fetch_seconds, method)

    def collect(self) -> Iterator[Metric]:
        """Implements `prometheus_client.registry.Collector`."""
        for metric in (
            self._polls,
            self._poll_seconds,
            self._fetches,
            self._fetch_seconds,
            self.packed_bytes,
            self._disk,
        ):
            yield from metric.collect()


class MeasuredOutcome:
    """Result label of a measured operation; `ok` unless set or an error is raised."""

    def __init__(self) -> None:
        self.result = "ok"


@contextmanager
def _measure(counter: Counter, seconds: Histogram, method: str) -> Generator[MeasuredOutcome]:
    outcome, started = MeasuredOutcome(), perf_counter()
    try:
        yield outcome
    except TowlineError as error:
        outcome.result = _error_result(error)
        raise
    except BaseException:
        outcome.result = "failed"
        raise
    finally:
        counter.labels(method, outcome.result).inc()
        seconds.labels(method).observe(perf_counter() - started)


def _error_result(error: TowlineError) -> str:
    if isinstance(error, CredentialsRefused):
        return "refused"
    if isinstance(error, CommitsRejected):
        return "rejected"
    return "invalid" if isinstance(error, Invalid) else "unavailable"
