"""Which addresses git may connect to."""

import ipaddress


def refused_address(text: str, *, allow_private: bool) -> str | None:
    """Why an IP address may not be connected to; None if it may.

    Link-local ones are always refused: the metadata services of clouds live there.
    """
    address = ipaddress.ip_address(text.split("%", 1)[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    metadata = address in ipaddress.ip_network("fd00:ec2::/32") if address.version == 6 else False
    if address.is_link_local or address.is_multicast or address.is_unspecified or metadata:
        return f"{address} is a link-local or special address"
    if not allow_private and not address.is_global:
        return f"{address} is a private address, which this installation does not allow"
    return None
