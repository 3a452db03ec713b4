"""Checks addresses of outbound connections.

Resolves a name once and checks every address. The connection goes to a checked address, so later
DNS changes have no effect (DNS rebinding).
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from core.errors import Invalid, TowlineError, Unavailable
from core.remotes import is_ambiguous_address

EVERYWHERE = ("0.0.0.0/0", "::/0")
"""All networks. The guard still refuses link-local and special addresses."""
_RESOLVE_SECONDS = 10.0
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_NAT64 = (ip_network("64:ff9b::/96"), _LOCAL_NAT64)
# Bytes of the IPv4 address in a local prefix of 48, 56 and 64 bits (RFC 6052, section 2.2).
_LOCAL_POSITIONS = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
# Metadata services of clouds outside of the link-local networks.
_METADATA = (
    ip_network("fd00:ec2::/32"),
    ip_network("100.100.100.200/32"),
    ip_network("192.0.0.192/32"),
    ip_network("168.63.129.16/32"),
)

Address = IPv4Address | IPv6Address


class AddressGuard(AbstractResolver):
    """A resolver that returns only allowed addresses: public ones, and those of `allowed` networks.

    Link-local, multicast and unspecified addresses, and metadata services of clouds, are never
    allowed. Refused addresses raise `error`; the message names `setting`, which allows networks.
    `resolver` resolves the names; the default is the system's resolver.
    """

    def __init__(
        self,
        allowed: Iterable[str] = (),
        *,
        error: Callable[[str], TowlineError] = Unavailable,
        setting: str = "",
        resolver: AbstractResolver | None = None,
    ) -> None:
        try:
            self._allowed = [ip_network(network) for network in allowed]
        except ValueError as bad:
            raise Invalid(f"{bad}: expected a network such as 10.1.0.0/16", field=setting) from None
        self.error = error
        self._setting_hint = f"; the setting {setting} can allow it" if setting else ""
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolves a name. Raises `error` for a forbidden address, Unavailable without any."""
        if self._resolver is None:
            self._resolver = ThreadedResolver()
        try:
            results = await self._resolver.resolve(host, port, family)
        except (OSError, UnicodeError):
            raise Unavailable(f"the host name {host} cannot be resolved") from None
        for result in results:
            self._check_address(host, result["host"])
        return results

    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns the addresses of a host, for connections of other programs and protocols."""
        self.check_host(host)
        if _parse_ip(host) is not None:
            return [host]
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                results = await self.resolve(host, port)
        except TimeoutError:
            raise Unavailable(f"the host name {host} cannot be resolved in time") from None
        return list(dict.fromkeys(result["host"] for result in results))

    def check_host(self, host: str) -> None:
        """Raises `error` if a URL's host is a forbidden or ambiguous address. Accepts names."""
        if is_ambiguous_address(host):
            raise self.error(f"{host!r} is not an IPv4 address in dotted-decimal form")
        if _parse_ip(host) is not None:
            self._check_address(host, host)

    async def close(self) -> None:
        """Closes the resolver."""
        if self._resolver is not None:
            await self._resolver.close()

    def _check_address(self, host: str, text: str) -> None:
        address = _parse_ip(text)
        if address is None:
            raise self.error(f"{host} has no IP address")
        embedded = _embedded_ipv4(address)
        checked = [address] if embedded is None else [address, embedded]
        if any(_is_special(ip) for ip in checked):
            raise self.error(f"{host} has a link-local or special address, which is not allowed")
        if not all(self._is_allowed(ip) for ip in checked):
            raise self.error(
                f"{host} has a private address, which is not allowed{self._setting_hint}"
            )

    def _is_allowed(self, address: Address) -> bool:
        return _is_public(address) or any(address in network for network in self._allowed)


# Each request asks again for the same few hosts.
@lru_cache(1024)
def _parse_ip(text: str) -> Address | None:
    """Parses an IP address; an IPv4-mapped IPv6 address becomes IPv4."""
    try:
        address = ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _embedded_ipv4(address: Address) -> IPv4Address | None:
    """Returns the IPv4 address that NAT64, 6to4 or Teredo translates this address to."""
    if isinstance(address, IPv4Address):
        return None
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else None)


def _is_special(address: Address) -> bool:
    is_metadata = any(address in network for network in _METADATA)
    is_local = is_metadata or address.is_link_local
    return is_local or address.is_multicast or address.is_unspecified or _may_embed_special(address)


def _may_embed_special(address: Address) -> bool:
    """True if a translator with a shorter local prefix would reach a local IPv4 address."""
    if isinstance(address, IPv4Address) or address not in _LOCAL_NAT64:
        return False
    octets = address.packed
    embedded = [
        IPv4Address(bytes(octets[position] for position in positions))
        for positions in _LOCAL_POSITIONS
    ]
    return any(
        candidate.is_link_local or any(candidate in net for net in _METADATA)
        for candidate in embedded
    )


def _is_public(address: Address) -> bool:
    """False for a translated IPv6 address: its translator may reach a private network."""
    if isinstance(address, IPv6Address) and (address.is_site_local or _embedded_ipv4(address)):
        return False
    return address.is_global and not address.is_reserved
