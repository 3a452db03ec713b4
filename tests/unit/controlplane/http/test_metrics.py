"""Prometheus metrics: requests of the API, and the snapshot of the installation."""

from collections.abc import AsyncIterator

import pytest
from graphql import GraphQLError
from prometheus_client import CollectorRegistry

from controlplane.http.metrics import ApiMetrics, SnapshotMetrics
from controlplane.reports.loop import SNAPSHOT_SECONDS, MetricsSnapshotLoop
from controlplane.reports.model.installation_metrics import Liveness, MetricsSnapshot, QueueDepth
from controlplane.services.model.status_codes import StatusCode
from core.errors import Unavailable
from tests.fakes.clock import FakeClock, settle

SNAPSHOT = MetricsSnapshot(
    services={StatusCode.HEALTHY.value: 3, StatusCode.FAILED.value: 1},
    clusters={Liveness.CONNECTED: 2, Liveness.OFFLINE: 1},
    jobs=QueueDepth(4, 7.5),
    commands=QueueDepth(1, 2.0),
    deliveries={1.0: 2, 5.0: 1, None: 3},
    delivery_seconds=4000.0,
    sources={"failed": 1},
    cluster_sources={"synced": 2},
)


class Installation:
    """The loop that takes snapshots of an installation, and the exported metrics."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.snapshot: MetricsSnapshot | None = SNAPSHOT
        self.loop = MetricsSnapshotLoop(self._take, self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(SnapshotMetrics(self.loop))

    async def _take(self) -> MetricsSnapshot:
        if self.snapshot is None:
            raise Unavailable("the store does not answer")
        return self.snapshot

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"towline_{name}", labels)


@pytest.fixture
async def installation() -> AsyncIterator[Installation]:
    installation = Installation()
    yield installation
    await installation.loop.stop()


async def test_a_snapshot_is_exported(installation: Installation) -> None:
    await installation.loop.start()
    await settle()
    value = installation.value
    assert (value("services", status="healthy"), value("services", status="failed")) == (3, 1)
    assert value("services", status="progressing") == 0
    assert (value("clusters", agent="connected"), value("clusters", agent="offline")) == (2, 1)
    assert (value("jobs_waiting"), value("jobs_oldest_seconds")) == (4, 7.5)
    assert (value("commands_waiting"), value("commands_oldest_seconds")) == (1, 2)
    assert value("configuration_sources", result="failed") == 1
    assert value("cluster_sources", result="synced") == 2


async def test_deliveries_are_counted_in_buckets_that_include_the_smaller_ones(
    installation: Installation,
) -> None:
    await installation.loop.start()
    await settle()
    buckets = [
        installation.value("delivery_seconds_bucket", le=bound)
        for bound in ("1.0", "2.0", "5.0", "1800.0", "+Inf")
    ]
    assert buckets == [2, 2, 3, 3, 6]
    assert installation.value("delivery_seconds_gsum") == 4000


async def test_a_snapshot_grows_old_while_the_store_does_not_answer(
    installation: Installation,
) -> None:
    """Its values stay, and its age is the alert."""
    await installation.clock.advance(7)
    assert installation.value("snapshot_age_seconds") == 7
    await installation.loop.start()
    await settle()
    assert installation.value("snapshot_age_seconds") == 0
    installation.snapshot = None
    await installation.clock.advance(2 * SNAPSHOT_SECONDS)
    assert installation.value("snapshot_age_seconds") == 2 * SNAPSHOT_SECONDS
    assert installation.value("jobs_waiting") == 4
    installation.snapshot = MetricsSnapshot()
    await installation.clock.advance(SNAPSHOT_SECONDS)
    assert installation.value("jobs_waiting") == 0


def test_requests_are_counted_by_kind_and_by_their_first_error() -> None:
    registry, metrics = CollectorRegistry(), ApiMetrics()
    registry.register(metrics)
    forbidden = GraphQLError("no", extensions={"code": "FORBIDDEN"})
    metrics.record_response("query A { a }", None, 0.5)
    metrics.record_response("fragment F on A { a }\nmutation B { b }", [], 2.0)
    metrics.record_response("{ mutation }", [forbidden, GraphQLError("bug")], 0.001)
    metrics.record_response(None, [GraphQLError("bug")], 0.001)

    def count(kind: str, code: str) -> float | None:
        labels = {"kind": kind, "code": code}
        return registry.get_sample_value("towline_api_requests_total", labels)

    assert (count("query", "OK"), count("mutation", "OK")) == (1, 1)
    assert (count("query", "FORBIDDEN"), count("query", "INTERNAL")) == (1, 1)
    assert registry.get_sample_value("towline_api_seconds_sum", {"kind": "mutation"}) == 2


def test_open_websockets_are_counted() -> None:
    registry, metrics = CollectorRegistry(), ApiMetrics()
    registry.register(metrics)
    with metrics.track_socket():
        assert registry.get_sample_value("towline_api_websockets") == 1
    assert registry.get_sample_value("towline_api_websockets") == 0
