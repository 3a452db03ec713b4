"""What the git side counts, for Prometheus: polls, fetches, bytes, and how full the disk is."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fleet.errors import Invalid, TowlineError
from gitcache.mirror.disk import Disk
from gitcache.mirror.route import Refused
from gitcache.ports import Rejected

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Meters(Collector):
    """A collector for a registry; nothing in it names a repository, so that it stays small."""

    def __init__(self, disk: Disk) -> None:
        self._polls = Counter(
            "towline_git_polls", "Servers asked for refs", ["way", "result"], registry=None
        )
        self._poll_seconds = Histogram(
            "towline_git_poll_seconds",
            "Until refs were there",
            ["way"],
            buckets=_SECONDS,
            registry=None,
        )
        self._fetches = Counter(
            "towline_git_fetches", "Fetches of commits", ["way", "result"], registry=None
        )
        self._fetch_seconds = Histogram(
            "towline_git_fetch_seconds",
            "Until commits were there",
            ["way"],
            buckets=_SECONDS,
            registry=None,
        )
        self.packed_bytes = Counter(
            "towline_git_packed_bytes", "Bytes of packs fetched without git", registry=None
        )
        self._disk = Gauge("towline_git_disk_used_ratio", "Share of the disk in use", registry=None)
        self._disk.set_function(disk.used)

    def poll(self, way: str) -> AbstractContextManager["Outcome"]:
        """Around one listing of refs by `http` or `git`."""
        return _measured(self._polls, self._poll_seconds, way)

    def fetch(self, way: str) -> AbstractContextManager["Outcome"]:
        """Around one fetch: `clone`, `quick`, `lean`, `git`, `files`, `graft`."""
        return _measured(self._fetches, self._fetch_seconds, way)

    def collect(self) -> Iterator[Metric]:
        """As `prometheus_client.registry.Collector`."""
        for metric in (
            self._polls,
            self._poll_seconds,
            self._fetches,
            self._fetch_seconds,
            self.packed_bytes,
            self._disk,
        ):
            yield from metric.collect()


def _seconds(name: str, meaning: str) -> Histogram:
    return Histogram(name, meaning, ["way"], buckets=_SECONDS, registry=None)


class Outcome:
    """How something ended; `ok` unless it is told otherwise or an error says so."""

    def __init__(self) -> None:
        self.result = "ok"


@contextmanager
def _measured(counter: Counter, seconds: Histogram, way: str) -> Generator[Outcome]:
    outcome, started = Outcome(), perf_counter()
    try:
        yield outcome
    except TowlineError as error:
        outcome.result = _kind(error)
        raise
    except BaseException:
        outcome.result = "failed"
        raise
    finally:
        counter.labels(way, outcome.result).inc()
        seconds.labels(way).observe(perf_counter() - started)


def _kind(error: TowlineError) -> str:
    if isinstance(error, Refused):
        return "refused"
    if isinstance(error, Rejected):
        return "rejected"
    return "invalid" if isinstance(error, Invalid) else "unavailable"
