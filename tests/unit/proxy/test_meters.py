"""Metrics of the proxy; strangers cannot invent labels."""

from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from proxy.domain.attributes import read_attributes
from proxy.domain.audit import EndReason, RequestRecord
from proxy.gateway.record import metrics as module
from proxy.gateway.record.metrics import ProxyMetrics
from tests.fakes.kube_proxy import ANN, CLUSTER


def record(target: str = "/api/v1/pods", method: str = "GET", **known: object) -> RequestRecord:
    made = RequestRecord(
        "0" * 32, datetime(2026, 1, 1, tzinfo=UTC), "", "", "dev", method, upgrade=False
    )
    made.attributes = read_attributes(method, target)
    made.identity, made.cluster_id = ANN, CLUSTER
    for name, value in known.items():
        setattr(made, name, value)
    return made


def shown(meters: ProxyMetrics) -> str:
    registry = CollectorRegistry()
    registry.register(meters)
    return generate_latest(registry).decode()


def test_requests_are_counted_by_cluster_verb_and_code() -> None:
    """With their bytes and durations; an open one is a gauge until it ends."""
    meters = ProxyMetrics()
    listed = record(status=200, bytes_in=3, bytes_out=7, seconds=0.02, reason=EndReason.DONE)
    watch = record("/api/v1/pods?watch=1")
    for one in (listed, watch):
        meters.opened(one)
    meters.closed(listed, entered=True)
    text = shown(meters)
    assert 'towline_proxy_requests_total{cluster="dev",code="200",verb="list"} 1.0' in text
    assert 'towline_proxy_bytes_total{cluster="dev",direction="out"} 7.0' in text
    assert 'towline_proxy_seconds_bucket{cluster="dev",le="0.01",verb="list"} 0.0' in text
    assert 'towline_proxy_seconds_bucket{cluster="dev",le="0.025",verb="list"} 1.0' in text
    assert 'towline_proxy_seconds_count{cluster="dev",verb="list"} 1.0' in text
    assert 'towline_proxy_open_requests{cluster="dev",kind="watch"} 1.0' in text
    assert 'kind="plain"' not in text


def test_requests_that_differ_in_their_ends_alone_count_as_one_by_one() -> None:
    ends = [("a", 0.02, 7), ("b", 3.0, 9)]
    separate, together = ProxyMetrics(), ProxyMetrics()
    for id, seconds, size in ends:
        made = record(id=id, status=200, seconds=seconds, bytes_out=size, reason=EndReason.DONE)
        separate.opened(made)
        separate.closed(made, entered=True)
    together.repeated(record(status=200, reason=EndReason.DONE), ends)
    assert shown(together) == shown(separate)


def test_refusals_and_broken_streams_have_their_reason() -> None:
    """The proxy's own answers by code, the others by what ended them."""
    meters = ProxyMetrics()
    refused = record(status=403, refused=True, cluster_id=None, reason=EndReason.REFUSED)
    meters.closed(refused, entered=False)
    meters.closed(record(status=200, reason=EndReason.USER_LEFT), entered=False)
    meters.refused(431)
    text = shown(meters)
    assert 'towline_proxy_refusals_total{code="403"} 1.0' in text
    assert 'towline_proxy_refusals_total{code="431"} 1.0' in text
    assert 'towline_proxy_interrupted_total{reason="user_left"} 1.0' in text
    assert 'towline_proxy_requests_total{cluster="",code="403",verb="list"} 1.0' in text


def test_exec_is_called_exec() -> None:
    """Not `create`, whatever the method."""
    for method in ("GET", "POST"):
        made = record("/api/v1/namespaces/a/pods/b/exec", method)
        assert module.verb_of(made) == "exec"


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's cluster has no name, and beyond the bound all are one."""
    meters = ProxyMetrics()
    for number in range(50):
        meters.closed(record(handle=f"c{number}", cluster_id=None, status=404), entered=False)
    assert shown(meters).count("towline_proxy_requests_total{") == 1
    monkeypatch.setattr(module, "MAX_SERIES", 3)
    for number in range(50):
        meters.closed(record(handle=f"c{number}", status=200), entered=False)
    assert shown(meters).count("towline_proxy_requests_total{") == 4
