"""The connection to the control plane: address, trust, token."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import grpc
import grpc.aio

from fleet.errors import Invalid

Metadata = Sequence[tuple[str, str]]

LOOPBACK = "127.0.0.1"
_MAX_MESSAGE = 16 << 20
# The pings are only a net beneath the pulses of Sync; they also make the kernel give up on
# unanswered data (TCP_USER_TIMEOUT), so a dead way is noticed within the time-out.
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the control plane is and how it is trusted.

    `address`: `https://host:port` or `host:port`; `http://host:port` speaks without TLS. `ca`:
    PEM of the authorities to trust instead of the public ones. `server_name`: the name that the
    certificate must carry, if it is not the host.
    """

    address: str
    token: str = field(repr=False)
    ca: bytes | None = None
    server_name: str | None = None

    @property
    def metadata(self) -> Metadata:
        """What each call carries to say who we are."""
        return (("authorization", f"Bearer {self.token}"),)

    def connect(self) -> grpc.aio.Channel:
        """A channel, not yet connected."""
        secure, target = _target(self.address)
        options: list[tuple[str, int | str]] = [*_OPTIONS, _proxy(target)]
        if self.server_name:
            options.append(("grpc.ssl_target_name_override", self.server_name))
        if not secure:
            return grpc.aio.insecure_channel(target, options)
        credentials = grpc.ssl_channel_credentials(self.ca)
        return grpc.aio.secure_channel(target, credentials, options)


def proxy_to(host: str) -> str:
    """URL of the proxy that HTTPS_PROXY names for a host; empty if it is reached directly."""
    if host == LOOPBACK:
        return ""
    url = getproxies().get("https")
    return "" if url is None or proxy_bypass(host) else url


def _proxy(target: str) -> tuple[str, int | str]:
    """The option that leads through an HTTP CONNECT proxy, or past it.

    gRPC by itself reads fewer variables than other programs do.
    """
    url = proxy_to(target.rpartition(":")[0].strip("[]"))
    return ("grpc.http_proxy", url) if url else ("grpc.enable_http_proxy", 0)


def _target(address: str) -> tuple[bool, str]:
    """Whether TLS is used, and `host:port`. Invalid: not an address."""
    parts = urlsplit(address if "://" in address else f"https://{address}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Invalid(f"{address!r} is not an address of a control plane")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme == "https", f"{host}:{parts.port or 443}"
