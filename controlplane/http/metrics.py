"""Prometheus metrics of the control plane: API requests, and the latest metrics snapshot."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate

from graphql import GraphQLError
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controlplane.reports.loop import MetricsSnapshotLoop
from controlplane.reports.model.installation_metrics import DELIVERY_BOUNDS, MetricsSnapshot
from controlplane.services.model.status_codes import StatusCode

OK = "OK"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_KINDS = ("query", "mutation")
_IS_MUTATION = re.compile(r"^\s*mutation\b", re.MULTILINE)
_UNKNOWN = "INTERNAL"


class ApiMetrics(Collector):
    """Requests by kind and by the code of their first error; durations by kind."""

    def __init__(self) -> None:
        self._requests = Counter(
            "towline_api_requests", "Completed GraphQL requests", ["kind", "code"], registry=None
        )
        self._seconds = Histogram(
            "towline_api_seconds",
            "Seconds from a GraphQL request to its response",
            ["kind"],
            buckets=_SECONDS,
            registry=None,
        )
        self._sockets = Gauge(
            "towline_api_websockets", "Open WebSockets of subscriptions", registry=None
        )
        self._by_kind = {kind: self._seconds.labels(kind) for kind in _KINDS}

    def record_response(
        self, query: str | None, errors: Sequence[GraphQLError] | None, seconds: float
    ) -> None:
        """Counts a completed request."""
        kind = "mutation" if query and _IS_MUTATION.search(query) else "query"
        self._requests.labels(kind, code_of(errors)).inc()
        self._by_kind[kind].observe(seconds)

    def track_socket(self) -> AbstractContextManager[object]:
        """Counts a WebSocket while it is open."""
        return self._sockets.track_inprogress()

    def collect(self) -> Iterator[Metric]:
        """Implements `prometheus_client.registry.Collector`."""
        for metric in (self._requests, self._seconds, self._sockets):
            yield from metric.collect()


def code_of(errors: Sequence[GraphQLError] | None) -> str:
    """Returns the code of the first error, `OK` without one."""
    if not errors:
        return OK
    return str((errors[0].extensions or {}).get("code") or _UNKNOWN)


class SnapshotMetrics(Collector):
    """The metrics snapshot as gauges. Every replica exports the same values, so aggregate with
    `max`.
    """

    def __init__(self, loop: MetricsSnapshotLoop) -> None:
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """Implements `prometheus_client.registry.Collector`."""
        snapshot = self._loop.newest
        services: dict[str, int] = {
            status.name.lower(): snapshot.services.get(status.value, 0) for status in StatusCode
        }
        yield _labelled_gauge("towline_services", "Services by status", "status", services)
        by_liveness = {liveness.value: count for liveness, count in snapshot.clusters.items()}
        yield _labelled_gauge(
            "towline_clusters",
            "Clusters by the connection state of their agent",
            "agent",
            by_liveness,
        )
        for name, waiting in (("jobs", snapshot.jobs), ("commands", snapshot.commands)):
            yield GaugeMetricFamily(
                f"towline_{name}_waiting", f"{name.title()} that are due", value=waiting.count
            )
            yield GaugeMetricFamily(
                f"towline_{name}_oldest_seconds",
                f"Seconds for which the oldest of the due {name} has been waiting",
                value=waiting.oldest,
            )
        yield _labelled_gauge(
            "towline_configuration_sources",
            "Configuration sources by the result of their last reconciliation",
            "result",
            dict(snapshot.sources),
        )
        yield _labelled_gauge(
            "towline_cluster_sources",
            "Cluster sources by the result of their last reconciliation",
            "result",
            dict(snapshot.cluster_sources),
        )
        yield _delivery_histogram(snapshot)
        yield GaugeMetricFamily(
            "towline_snapshot_age_seconds",
            "Seconds since these values were collected",
            value=self._loop.age(),
        )


def _labelled_gauge(name: str, text: str, label: str, counts: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _delivery_histogram(snapshot: MetricsSnapshot) -> Metric:
    bounds = (*DELIVERY_BOUNDS, None)
    sums = accumulate(snapshot.deliveries.get(bound, 0) for bound in bounds)
    bound_texts = (*map(str, DELIVERY_BOUNDS), "+Inf")
    return GaugeHistogramMetricFamily(
        "towline_delivery_seconds",
        "Seconds from commit to healthy, for deployments of the last 15 minutes",
        buckets=[
            (bound_text, float(count)) for bound_text, count in zip(bound_texts, sums, strict=True)
        ],
        gsum_value=snapshot.delivery_seconds,
    )
