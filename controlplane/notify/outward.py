"""Implements the port `GuardedClient`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from controlplane.notify.addresses import AddressGuard
from controlplane.notify.client import GuardedHttpClient
from controlplane.notify.syslog import SyslogClient
from controlplane.ports import HttpReply


class GuardedSender:
    """Sends to public addresses, and to private ones of `allowed` networks."""

    def __init__(self, allowed: Iterable[str] = (), ca_file: Path | None = None) -> None:
        addresses = AddressGuard(allowed)
        self._http = GuardedHttpClient(addresses, ca_file)
        self._syslog = SyslogClient(addresses, ca_file)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        return (await self._http.ask("POST", url, headers, body)).status

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        return await self._http.ask(method, url, headers, body)

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        await self._syslog.send(url, messages)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.close()
