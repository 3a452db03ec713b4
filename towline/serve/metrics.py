"""Prometheus registry and listener of a process."""

from collections.abc import Callable, Iterable

import uvicorn
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from core import __version__
from towline.serve.sockets import Listener, address


def make_registry(collectors: Iterable[Collector]) -> CollectorRegistry:
    """Builds a registry of these collectors, the process and its version."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Gauge(
        "towline_build_info",
        "Version of the running process; the value is always 1.",
        ["version"],
        registry=registry,
    )
    build.labels(__version__).set(1)
    for collector in collectors:
        registry.register(collector)
    return registry


def gauge(name: str, text: str, value: Callable[[], float]) -> Gauge:
    """Builds a gauge that calls `value` at each scrape."""
    gauge_metric = Gauge(name, text, registry=None)
    gauge_metric.set_function(value)
    return gauge_metric


def metrics_listener(app: Callable[..., object], text: str) -> Listener:
    """Builds a listener for plain HTTP. Raises Invalid if `text` is not host:port."""
    host, port = address(text, "listen_metrics")
    return Listener(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            lifespan="off",
            access_log=False,
            log_config=None,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
    )
