"""Sends RFC 5424 messages over TLS (RFC 5425), TCP (RFC 6587, octet-counted) or UDP (RFC 5426)."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from core.errors import Unavailable
from core.outbound.addresses import AddressGuard

SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_PORTS = {"syslog+tls": 6514, "syslog+tcp": 601, "syslog+udp": 514}
_MAX_DATAGRAM = 60_000


class SyslogClient:
    """Sends lines over one short connection a batch."""

    def __init__(self, guard: AddressGuard, tls: ssl.SSLContext) -> None:
        self._guard = guard
        self._tls = tls

    async def send(self, url: str, messages: Sequence[bytes]) -> None:
        """Sends messages to `syslog+tls|tcp|udp://host:port`. Raises
        Unavailable with the reason.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in _PORTS or not host:
            raise Unavailable("the sink has no syslog URL: configure it again")
        port = parts.port or _PORTS[parts.scheme]
        try:
            async with asyncio.timeout(SECONDS):
                address = (await self._guard.addresses(host, port))[0]
                if parts.scheme == "syslog+udp":
                    await _by_datagrams(address, port, messages)
                else:
                    tls = self._tls if parts.scheme == "syslog+tls" else None
                    await _by_stream(address, port, tls, host, messages)
        except TimeoutError:
            raise Unavailable(
                f"{host} did not accept the messages within {SECONDS:.0f} s"
            ) from None
        except OSError as error:
            raise Unavailable(f"{host} cannot be reached: {type(error).__name__}") from None


async def _by_stream(
    address: str, port: int, tls: ssl.SSLContext | None, host: str, messages: Sequence[bytes]
) -> None:
    """Sends octet-counted messages. The peer sends no answer, so unread messages show only at the
    close.
    """
    name = host if tls else None
    reader, writer = await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)
    try:
        for message in messages:
            writer.write(b"%d %s" % (len(message), message))
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), _CLOSE_SECONDS)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _by_datagrams(address: str, port: int, messages: Sequence[bytes]) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=(address, port)
    )
    try:
        for message in messages:
            transport.sendto(message[:_MAX_DATAGRAM])
    finally:
        transport.close()
