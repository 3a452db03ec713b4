"""The connection to the control plane: address, trust, token."""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from core.errors import Invalid
from core.remotes import is_loopback_host
from core.rpc.calls import CallChannel, Metadata
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.implementations import GrpcImplementation
from core.runtime.clock import Clock

if TYPE_CHECKING:
    from core.links.websocket import WebSocketForwarder

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of the control plane, and its trust settings.
    `address`: `https://host:port` or `host:port`; `http://host:port` uses no TLS, only for this
    machine. `ca`: PEM of the authorities to trust instead of the public ones. `server_name`: the
    name in the certificate, if it is not the host. `wire`: the gRPC implementation.
    """

    address: str
    token: str = field(repr=False)
    ca: bytes | None = None
    server_name: str | None = None
    wire: GrpcImplementation = GrpcImplementation.HTTP2

    @property
    def metadata(self) -> Metadata:
        """Metadata of each call that authenticate the agent."""
        return (("authorization", f"Bearer {self.token}"),)

    @property
    def direct_host(self) -> tuple[str, ssl.SSLContext | None] | None:
        """Host and TLS of further connections; None: only this address can be reached."""
        secure, host, _ = parse_address(self.address)
        if proxy_to(host) or self.server_name not in (None, host):
            return None
        return host, client_tls(self.ca) if secure else None

    def connect(self, clock: Clock) -> CallChannel:
        """Creates a channel that is not yet connected. Invalid: `address` or `ca` is not valid."""
        secure, host, port = parse_address(self.address)
        proxy = proxy_to(host)
        if self.wire is GrpcImplementation.GRPCIO:
            # Its libraries need about 10 MB.
            from core.rpc.grpcio import GrpcioChannel

            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            return GrpcioChannel(
                place, secure=secure, ca=self.ca, server_name=self.server_name, proxy=proxy
            )
        tls = client_tls(self.ca) if secure else None
        return Http2Channel(CallTarget(host, port, tls, self.server_name, proxy), clock)


def websocket_forwarder(url: str, tls: Callable[[], ssl.SSLContext]) -> "WebSocketForwarder":
    """Builds the WebSocket pipe; see `WebSocketForwarder`."""
    # Its library needs about 9 MB.
    from core.links.websocket import WebSocketForwarder

    return WebSocketForwarder(url, tls)


def proxy_to(host: str) -> str:
    """Returns the URL of the proxy for a host from HTTPS_PROXY; empty for a direct connection."""
    if host == LOOPBACK or not os.environ.keys() & {"HTTPS_PROXY", "https_proxy"}:
        return ""
    # With its parsers of HTTP and mail, it needs 0.9 MB.
    from urllib.request import getproxies, proxy_bypass

    url = getproxies().get("https")
    return "" if url is None or proxy_bypass(host) else url


def parse_address(address: str) -> tuple[bool, str, int]:
    """Parses an address into TLS flag, host and port. Invalid: not an address."""
    parts = urlsplit(address if "://" in address else f"https://{address}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Invalid(f"{address!r} is not a valid control plane address")
    if parts.scheme == "http" and not is_loopback_host(parts.hostname):
        raise Invalid(
            f"{address!r} has no TLS, which is only allowed for this machine: use https://"
        )
    return parts.scheme == "https", parts.hostname, parts.port or 443
