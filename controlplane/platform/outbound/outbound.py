"""Implements the port `GuardedClient`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from controlplane.platform.outbound.syslog import SyslogClient
from core.outbound.addresses import AddressGuard
from core.outbound.client import SECONDS, OutboundClient, OutboundRoute, client_tls


class GuardedSender(OutboundClient):
    """Sends to public addresses, and to private ones of `allowed` networks."""

    def __init__(
        self, allowed: Iterable[str] = (), ca_file: Path | None = None, *, seconds: float = SECONDS
    ) -> None:
        tls = client_tls(ca_file)
        guard = AddressGuard(allowed, setting="notify.private_networks")
        super().__init__(guard, OutboundRoute(tls), seconds=seconds, keep_alive=False)
        self._syslog = SyslogClient(guard, tls)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        return (await self.request("POST", url, headers, body)).status

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        await self._syslog.send(url, messages)
