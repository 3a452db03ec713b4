"""Prometheus metrics of the Kubernetes proxy, counted as plain integers and formatted on scrape.
Labels name clusters only of authorized requests, and only verbs of Kubernetes, so that
unauthenticated clients cannot create label values.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from core.open_streams import RequestEnd
from proxy.domain.attributes import OTHER_VERB
from proxy.domain.audit import EndReason, RequestRecord

MAX_SERIES = 20_000
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _Histogram:
    """Request durations by bucket, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def observe(self, ends: Iterable[RequestEnd]) -> None:
        counts, total = self.counts, self.total
        for _, seconds, _ in ends:
            counts[bisect_left(BUCKETS, seconds)] += 1
            total += seconds
        self.total = total

    def cumulative(self) -> list[tuple[str, float]]:
        rows, sum_so_far = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            sum_so_far += count
            rows.append((bound, float(sum_so_far)))
        return rows


class _RequestCounts:
    """Counts of the requests to one cluster with one verb."""

    __slots__ = ("bytes_in", "bytes_out", "codes", "durations")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.bytes_in = self.bytes_out = 0
        self.durations: _Histogram | None = None

    def observe(self, ends: Sequence[RequestEnd]) -> None:
        self.bytes_out += sum(size for _, _, size in ends)
        if self.durations is None:
            self.durations = _Histogram()
        self.durations.observe(ends)


class ProxyMetrics:
    """Collector for a `prometheus_client` registry."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _RequestCounts] = {}
        self._series = 0
        self._refusals: Counter[str] = Counter()
        self._interruptions: Counter[str] = Counter()
        self._open: dict[tuple[str, str], int] = {}

    def opened(self, record: RequestRecord) -> None:
        """Counts a request that was authorized and opened."""
        key = (record.handle, kind_of(record))
        self._open[key] = self._open.get(key, 0) + 1

    def closed(self, record: RequestRecord, *, entered: bool) -> None:
        """Counts a request that has ended. `entered`: `opened` has counted it."""
        counts = self._count_end(record, 1)
        if entered:
            counts.bytes_in += record.bytes_in
            counts.observe([(record.id, record.seconds, record.bytes_out)])
            self._remove_open(record)

    def repeated(self, record: RequestRecord, ends: Sequence[RequestEnd]) -> None:
        """Counts equal requests that were opened and have ended."""
        counts = self._count_end(record, len(ends))
        counts.observe(ends)

    def refused(self, status: int) -> None:
        """Counts a head that was refused before it became a request."""
        self._refusals[str(status)] += 1

    def collect(self) -> Iterable[Metric]:
        """Returns all metrics in their present state, for the registry."""
        yield _counter(
            "towline_proxy_requests", "Ended requests", ("cluster", "verb", "code"),
            {
                (*key, str(code)): count
                for key, counts in self._counts.items() for code, count in counts.codes.items()
            },
        )  # fmt: skip
        yield _counter(
            "towline_proxy_bytes", "Bytes of bodies", ("cluster", "direction"), self._body_bytes()
        )
        yield _counter(
            "towline_proxy_refusals", "Requests that the proxy itself answered", ("code",),
            {(code,): count for code, count in self._refusals.items()},
        )  # fmt: skip
        yield _counter(
            "towline_proxy_interrupted", "Requests that were interrupted", ("reason",),
            {(reason,): count for reason, count in self._interruptions.items()},
        )  # fmt: skip
        yield self._open_streams()
        yield self._histograms()

    def _counts_for(self, record: RequestRecord, status: int) -> _RequestCounts:
        """Finds the counts for a request; beyond `MAX_SERIES`, all clusters share one entry for
        each verb.
        """
        verb = verb_of(record)
        key = (record.handle if record.cluster_id is not None else "", verb)
        counts = self._counts.get(key)
        if counts is not None and status in counts.codes:
            return counts
        if self._series >= MAX_SERIES:
            counts = self._counts.get(key := (OTHER_VERB, verb))
        self._series += counts is None or status not in counts.codes
        if counts is None:
            counts = self._counts[key] = _RequestCounts()
        return counts

    def _count_end(self, record: RequestRecord, requests: int) -> _RequestCounts:
        status = record.status or 0
        counts = self._counts_for(record, status)
        counts.codes[status] = counts.codes.get(status, 0) + requests
        if record.refused:
            self._refusals[str(status)] += requests
        elif record.reason is not None and record.reason is not EndReason.DONE:
            self._interruptions[record.reason.value] += requests
        return counts

    def _remove_open(self, record: RequestRecord) -> None:
        key = (record.handle, kind_of(record))
        remaining = self._open[key] - 1
        if remaining:
            self._open[key] = remaining
        else:
            del self._open[key]

    def _body_bytes(self) -> Counter[tuple[str, ...]]:
        totals: Counter[tuple[str, ...]] = Counter()
        for (cluster, _), counts in self._counts.items():
            if counts.durations is not None:
                totals[(cluster, "in")] += counts.bytes_in
                totals[(cluster, "out")] += counts.bytes_out
        return totals

    def _open_streams(self) -> Metric:
        family = GaugeMetricFamily(
            "towline_proxy_open_requests", "Open requests", labels=("cluster", "kind")
        )
        for labels, count in self._open.items():
            family.add_metric(labels, count)
        return family

    def _histograms(self) -> Metric:
        family = HistogramMetricFamily(
            "towline_proxy_seconds",
            "Duration of requests in seconds, from head to end",
            labels=("cluster", "verb"),
        )
        for labels, counts in self._counts.items():
            if (histogram := counts.durations) is not None:
                family.add_metric(labels, histogram.cumulative(), histogram.total)
        return family


def verb_of(record: RequestRecord) -> str:
    """The verb as people know it; empty if the request could not be parsed."""
    return record.attributes.display_verb if record.attributes is not None else ""


def kind_of(record: RequestRecord) -> str:
    """Kind of a request: `upgrade`, `watch` (also other requests without an end) or `plain`."""
    if record.upgrade:
        return "upgrade"
    attributes = record.attributes
    return "watch" if attributes is not None and attributes.long_running else "plain"


def _counter(
    name: str, description: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(name, description, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
