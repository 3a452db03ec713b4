"""The log of `towline serve` about its addresses."""

from pathlib import Path

import structlog.testing

from towline.serve.process import ListenerAddresses, log_addresses


def test_plain_http_is_logged_as_a_warning() -> None:
    with structlog.testing.capture_logs() as logs:
        log_addresses(ListenerAddresses("a:1", "a:2", http="a:3"), Path("data"))
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["http"] == "http://a:3" and "--listen-http off" in warning["event"]


def test_no_warning_is_logged_when_http_is_off() -> None:
    with structlog.testing.capture_logs() as logs:
        log_addresses(ListenerAddresses("a:1", "a:2"), Path("data"))
    assert [entry["log_level"] for entry in logs] == ["info"]
