"""Restricts git traffic to allowed addresses, checked on the address of the connection."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from core.errors import Invalid, Unavailable
from core.remotes import Remote, is_ambiguous_address
from gitcache.domain.addresses import refused_address


class AddressFilter(AbstractResolver):
    """A resolver that returns only allowed addresses, which prevents DNS rebinding.

    `resolver` resolves the names; the default is the system's resolver.
    """

    def __init__(
        self, *, allow_private_hosts: bool, resolver: AbstractResolver | None = None
    ) -> None:
        self._allow_private = allow_private_hosts
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if self._resolver is None:
            self._resolver = ThreadedResolver()
        found = await self._resolver.resolve(host, port, family)
        for result in found:
            self._check(result["host"])
        return found

    async def close(self) -> None:
        if self._resolver is not None:
            await self._resolver.close()

    def check_host(self, host: str) -> None:
        """Raises Invalid if a URL's host is a forbidden or ambiguous address."""
        if is_ambiguous_address(host):
            raise Invalid(f"{host!r} is not an IPv4 address in dotted-decimal form", field="url")
        if _is_address(host):
            self._check(host)

    async def addresses(self, remote: Remote) -> Sequence[str]:
        """Resolves the host. Raises Invalid for a forbidden address, Unavailable without any."""
        if _is_address(remote.host):
            self._check(remote.host)
            return [remote.host]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(remote.host, remote.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"cannot resolve the host name {remote.host}") from error
        addresses = list(dict.fromkeys(str(result[4][0]) for result in found))
        for address in addresses:
            self._check(address)
        return addresses

    def _check(self, address: str) -> None:
        if reason := refused_address(address, allow_private=self._allow_private):
            raise Invalid(f"the repository's server is not allowed: {reason}", field="url")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
