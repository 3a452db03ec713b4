"""What Prometheus is told of the door: counted in plain integers, put into form when asked.

Clusters are named only where a request was let in, verbs only those of Kubernetes, so that no
stranger can make up label values.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from proxy.domain.audit import EndReason, RequestRecord

MOST_SERIES = 20_000
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_VERBS = frozenset({
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy",
    "exec", "attach", "portforward", "log", "head", "options",
})  # fmt: skip
_NAMED = frozenset({"exec", "attach", "portforward", "log", "proxy"})
_ELSEWHERE = "other"


class _Histogram:
    """Durations by bucket, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        rows, sum_so_far = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            sum_so_far += count
            rows.append((bound, float(sum_so_far)))
        return rows


class Meters:
    """A collector for a registry of `prometheus_client`."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._sent: Counter[tuple[str, ...]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._durations: dict[tuple[str, str], _Histogram] = {}
        self._open: Counter[tuple[str, str]] = Counter()

    def opened(self, record: RequestRecord) -> None:
        """A request was let in."""
        self._open[(record.handle, kind_of(record))] += 1

    def closed(self, record: RequestRecord, *, entered: bool) -> None:
        """A request has ended; `entered`: it was told to `opened`."""
        cluster = self._cluster(record)
        verb = verb_of(record)
        code = str(record.status or 0)
        if len(self._requests) >= MOST_SERIES and (cluster, verb, code) not in self._requests:
            cluster = _ELSEWHERE
        self._requests[(cluster, verb, code)] += 1
        if record.refused:
            self._refusals[code] += 1
        elif record.reason is not None and record.reason is not EndReason.DONE:
            self._ends[record.reason.value] += 1
        if entered:
            self._leave(record, cluster, verb)

    def refused(self, status: int) -> None:
        """A head was refused before it was known to be a request."""
        self._refusals[str(status)] += 1

    def collect(self) -> Iterable[Metric]:
        """For the registry: all of it as it stands now."""
        yield _counter(
            "towline_door_requests", "Ended requests", ("cluster", "verb", "code"), self._requests
        )
        yield _counter(
            "towline_door_bytes", "Bytes of bodies", ("cluster", "direction"), self._sent
        )
        yield _counter(
            "towline_door_refusals", "Requests that the door itself answered", ("code",),
            {(code,): count for code, count in self._refusals.items()},
        )  # fmt: skip
        yield _counter(
            "towline_door_broken_off", "Requests that did not end by themselves", ("reason",),
            {(reason,): count for reason, count in self._ends.items()},
        )  # fmt: skip
        yield self._open_streams()
        yield self._histograms()

    def _cluster(self, record: RequestRecord) -> str:
        return record.handle if record.cluster_id is not None else ""

    def _leave(self, record: RequestRecord, cluster: str, verb: str) -> None:
        self._sent[(cluster, "in")] += record.bytes_in
        self._sent[(cluster, "out")] += record.bytes_out
        key = (record.handle, kind_of(record))
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
        histogram = self._durations.get((cluster, verb))
        if histogram is None:
            histogram = self._durations[(cluster, verb)] = _Histogram()
        histogram.observe(record.seconds)

    def _open_streams(self) -> Metric:
        family = GaugeMetricFamily(
            "towline_door_open_requests", "Requests under way", labels=("cluster", "kind")
        )
        for labels, count in self._open.items():
            family.add_metric(labels, count)
        return family

    def _histograms(self) -> Metric:
        family = HistogramMetricFamily(
            "towline_door_seconds", "From a request's head to its end", labels=("cluster", "verb")
        )
        for labels, one in self._durations.items():
            family.add_metric(labels, one.cumulative(), one.total)
        return family


def verb_of(record: RequestRecord) -> str:
    """The verb as people think of it: `exec`, not `create pods/exec`."""
    what = record.attributes
    if what is None:
        return ""
    verb = what.subresource if what.subresource in _NAMED else what.verb
    return verb if verb in _VERBS else _ELSEWHERE


def kind_of(record: RequestRecord) -> str:
    """`upgrade`, `watch` (and what else goes on for ever) or `plain`."""
    if record.upgrade:
        return "upgrade"
    what = record.attributes
    return "watch" if what is not None and what.long_running else "plain"


def _counter(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
