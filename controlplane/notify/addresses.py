"""Allowed target addresses: only public ones, unless the operator allows private networks.

A name is resolved once and every address is checked. The connection goes to a checked address, so
later DNS changes have no effect.
"""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from core.errors import Invalid, Unavailable

_SECONDS = 5.0
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
# Translations of IPv4 through which a private address would look public.
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("2002::/16"))


class AddressGuard:
    """Resolves names. `allowed` are private networks (CIDR) that may be reached."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed: list[Network] = []
        for network in allowed:
            try:
                self._allowed.append(ip_network(network))
            except ValueError:
                raise Invalid(
                    f"{network!r} is not a network such as 10.1.0.0/16", field="notify"
                ) from None

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Returns all addresses of a host. Raises Unavailable if it
        has none, or a forbidden one.
        """
        literal = _literal(host)
        found = [literal] if literal else await self._ask(host, port)
        for address in found:
            self._judge(host, address)
        return found

    def check_literal(self, host: str) -> None:
        """Raises Unavailable if the host is a forbidden IP address. Accepts every name."""
        literal = _literal(host)
        if literal is not None:
            self._judge(host, literal)

    def allows(self, address: Address) -> bool:
        """Returns whether an address is allowed."""
        plain = _plain(address)
        if any(plain in network for network in self._allowed):
            return True
        return plain.is_global and not plain.is_multicast and not _is_translated(plain)

    def _judge(self, host: str, address: Address) -> None:
        if not self.allows(address):
            raise Unavailable(
                f"{host} has a private address: the operator may allow its network "
                "in notify.private_networks"
            )

    async def _ask(self, host: str, port: int) -> list[Address]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_SECONDS):
                infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, TimeoutError):
            raise Unavailable(f"{host} has no address") from None
        return [address for info in infos if (address := _literal(str(info[4][0]))) is not None]


def _literal(text: str) -> Address | None:
    try:
        return ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """Converts an IPv4-mapped IPv6 address into IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_translated(address: Address) -> bool:
    return any(address in network for network in _TRANSLATED)
