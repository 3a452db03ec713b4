"""Addresses that git is allowed to connect to."""

import ipaddress

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_METADATA = tuple(
    ipaddress.ip_network(text) for text in ("fd00:ec2::/32", "100.100.100.200/32", "192.0.0.192/32")
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def refused_address(text: str, *, allow_private: bool) -> str | None:
    """Returns the reason why an IP address is forbidden, None if it is allowed.

    Link-local addresses and other metadata services of clouds are always forbidden. For an
    IPv6 address that maps to an IPv4 address, the IPv4 address is checked.
    """
    address = _meant(ipaddress.ip_address(text.split("%", 1)[0]))
    metadata = any(
        address in network for network in _METADATA if network.version == address.version
    )
    if address.is_link_local or address.is_multicast or address.is_unspecified or metadata:
        return f"{address} is a link-local or special address"
    if not allow_private and not address.is_global:
        return f"{address} is a private address, which this installation does not allow"
    return None


def _meant(address: Address) -> Address:
    """Resolves IPv4-mapped, NAT64, 6to4 and Teredo addresses to their IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address
