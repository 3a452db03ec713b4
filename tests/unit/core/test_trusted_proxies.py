"""Addresses of clients: only trusted proxies can name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.trusted_proxies import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "192.0.2.1", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 192.0.2.1, 10.1.1.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, unknown, 10.1.1.1"], "10.1.1.1"),
        ("10.0.0.1", ["10.1.1.1"], "10.1.1.1"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("fd00::1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1" + ", 10.0.0.2" * 100], "10.0.0.2"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_a_client_is_the_first_untrusted_address_from_the_right(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert PROXIES.client_address(peer, forwarded) == client


@given(st.lists(st.text(max_size=50), max_size=5))
def test_no_header_of_an_untrusted_peer_counts(forwarded: list[str]) -> None:
    assert PROXIES.client_address("203.0.113.9", forwarded) == "203.0.113.9"
    assert PROXIES.request_scheme("203.0.113.9", "http", forwarded) == "http"
    assert TrustedProxies().client_address("10.0.0.1", forwarded) == "10.0.0.1"


@pytest.mark.parametrize(
    ("forwarded", "scheme"),
    [
        (["https"], "https"),
        (["http, HTTPS"], "https"),
        (["https, http"], "http"),
        (["ftp"], "http"),
    ],
)
def test_the_scheme_is_that_of_the_last_proxy(forwarded: list[str], scheme: str) -> None:
    assert PROXIES.request_scheme("10.0.0.1", "http", forwarded) == scheme


@pytest.mark.parametrize("text", ["", "*", "10.0.0.0/33", "ingress.example.org"])
def test_a_proxy_is_an_address_or_a_network(text: str) -> None:
    with pytest.raises(Invalid, match="no IP address or network"):
        TrustedProxies([text])
