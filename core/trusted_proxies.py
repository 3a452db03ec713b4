"""Addresses of clients behind trusted proxies."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from core.errors import Invalid

_MAX_HOPS = 32


class TrustedProxies:
    """Networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.

    Without networks, no header of a client changes its address.
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Raises Invalid for text that is no address and no network."""
        self._networks = [_parse_network(text) for text in networks]
        self._is_trusted_cached = lru_cache(10_000)(self._is_trusted)

    @property
    def networks(self) -> list[str]:
        """The networks, each as an address with a prefix length."""
        return [str(network) for network in self._networks]

    def is_trusted(self, address: str) -> bool:
        """Reports whether a proxy has this address."""
        return bool(self._networks) and self._is_trusted_cached(address)

    def client_address(self, peer: str, forwarded: Sequence[str]) -> str:
        """The address of a client: `peer` has the connection, `forwarded` are the values of
        `X-Forwarded-For`.

        Reads from the right, because each proxy appends the address of its own peer: entries left
        of the first untrusted address were written by the client.
        """
        if not self.is_trusted(peer):
            return peer
        client = peer
        hops = [hop for value in forwarded for hop in value.split(",")]
        for hop in reversed(hops[-_MAX_HOPS:]):
            address = _parse_address(hop.strip())
            if address is None:
                break
            client = str(address)
            if not self.is_trusted(client):
                break
        return client

    def request_scheme(self, peer: str, scheme: str, forwarded: Sequence[str]) -> str:
        """The scheme of a request: that of the last `X-Forwarded-Proto` of a trusted proxy."""
        if not forwarded or not self.is_trusted(peer):
            return scheme
        last = forwarded[-1].rpartition(",")[2].strip().lower()
        return last if last in ("http", "https") else scheme

    def _is_trusted(self, text: str) -> bool:
        address = _parse_address(text)
        return address is not None and any(address in network for network in self._networks)


def _parse_network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise Invalid(f"{text!r} is no IP address or network", field="trusted_proxies") from None


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Reads an address, with or without a port; None for other text."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
