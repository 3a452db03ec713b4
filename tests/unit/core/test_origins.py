"""Requests of foreign pages, by what browsers send along."""

import pytest

from core.origins import is_foreign

PUBLIC = "https://towline.example.org/"


@pytest.mark.parametrize(
    ("site", "origin", "host"),
    [
        (None, None, "a:8443"),
        ("same-origin", None, "a:8443"),
        ("none", None, "a:8443"),
        ("same-origin", "null", "a:8443"),
        (None, "https://a:8443", "A:8443"),
        (None, "http://a", "a:80"),
        (None, "https://towline.example.org", "10.0.0.7:8080"),
        ("same-origin", "https://towline.example.org", "10.0.0.7:8080"),
    ],
)
def test_our_own_pages(site: str | None, origin: str | None, host: str) -> None:
    """Also behind a reverse proxy that replaces the Host."""
    assert not is_foreign(site, origin, host, PUBLIC)


@pytest.mark.parametrize(
    ("site", "origin", "host"),
    [
        ("cross-site", "https://a:8443", "a:8443"),
        ("same-site", "https://a:8443", "a:8443"),
        ("same-origin, cross-site", "https://a:8443", "a:8443"),
        ("", "https://a:8443", "a:8443"),
        (None, "null", "a:8443"),
        (None, "", ""),
        (None, "https://", ""),
        (None, "https://a", "a:8443"),
        (None, "https://a:80", "a"),
        (None, "https://evil.example.org", "a:8443"),
        (None, "https://a:8443@evil.example.org", "a:8443"),
        (None, "https://a:8443, https://a:8443", "a:8443"),
        (None, "http://towline.example.org", "10.0.0.7:8080"),
        (None, "https://x.towline.example.org", "10.0.0.7:8080"),
    ],
)
def test_foreign_pages(site: str | None, origin: str | None, host: str) -> None:
    """Pages of other names, ports and schemes, and pages that hide their origin."""
    assert is_foreign(site, origin, host, PUBLIC)
