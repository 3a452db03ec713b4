"""The log of `towline serve` about its addresses."""

from pathlib import Path

import structlog.testing

from towline.serve.process import ListenerAddresses, log_addresses


def test_http_without_tls_is_told() -> None:
    with structlog.testing.capture_logs() as logs:
        log_addresses(ListenerAddresses("a:1", "a:2", http="a:3"), Path("data"))
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["http"] == "http://a:3" and "--listen-http off" in warning["event"]


def test_nothing_is_told_about_http_that_is_off() -> None:
    with structlog.testing.capture_logs() as logs:
        log_addresses(ListenerAddresses("a:1", "a:2"), Path("data"))
    assert [entry["log_level"] for entry in logs] == ["info"]
