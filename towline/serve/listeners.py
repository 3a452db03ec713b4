"""Listeners of a control plane: HTTPS and HTTP with uvicorn, gRPC for agents."""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from controlplane.http.app import MOST_BODY_BYTES
from fleet.errors import Invalid, Unavailable
from fleet.rpc.calls import Handler, Server, ServerLimits
from fleet.rpc.http2_server import Http2Server
from fleet.rpc.wires import Wire, grpcio
from fleet.runtime.clock import Clock
from towline.authority import Authority, Credentials, check, expires, names_of
from towline.serve.sockets import OFF, Listener, address, bind
from towline.settings import ServeSettings, TlsSettings

_NEVER_OFF = frozenset({"listen", "listen_agents"})
_RENEW_DAYS = 30
_AUTHORITY = "Towline authority"


def check_addresses(settings: ServeSettings) -> None:
    """Validates the addresses of all listeners before opening any. Raises Invalid."""
    for name in type(settings).model_fields:
        text = getattr(settings, name)
        if name in _NEVER_OFF or (name.startswith("listen_") and text != OFF):
            address(text, name)


def credentials(settings: TlsSettings, folder: Path, clock: Clock) -> Credentials:
    """Returns the configured certificate, or one of Towline's own CA.

    The latter is renewed 30 days before it expires, and if names were added. Invalid: the
    configured certificate is not usable.
    """
    if settings.cert and settings.key:
        given = Credentials(settings.cert, settings.key)
        check(given, clock.now())
        return given
    if settings.cert or settings.key:
        raise Invalid("set both cert and key, or neither", field="tls")
    now = clock.now()
    authority = _authority(folder, now)
    made = Credentials(folder / "server.crt", folder / "server.key")
    is_ours = _is_good(made, now) and authority.has_signed(made)
    if is_ours and names_of(made.certificate) >= set(settings.names):
        return made
    return authority.sign("server", "towline", now, names=settings.names)


def _authority(folder: Path, now: datetime) -> Authority:
    """Opens Towline's own CA, or creates it at the first start. Invalid: files are missing."""
    if (folder / "ca.crt").exists():
        return Authority.open(folder)
    if (folder / "ca.key").exists():
        # The certificate was lost, or the first start was killed right before it was written.
        return Authority.certify(folder, _AUTHORITY, now)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Authority.create(folder, _AUTHORITY, now)


def _is_good(made: Credentials, now: datetime) -> bool:
    """Returns true if a certificate of Towline's own CA is valid for more than 30 days."""
    if not (made.certificate.exists() and made.key.exists()):
        return False
    try:
        check(made, now)
    except Invalid:
        return False
    return (expires(made.certificate) - now).days > _RENEW_DAYS


def known_hosts(settings: ServeSettings, tls: Credentials) -> set[str]:
    """Host names of this process: from its certificate and settings."""
    public = urlsplit(settings.auth.public_url).hostname
    return {*names_of(tls.certificate), *settings.hosts, *([public] if public else [])}


def http_listener(
    app: ASGIApp,
    protocol: type[asyncio.Protocol],
    where: tuple[str, int],
    tls: Credentials | None,
    drain_seconds: float,
) -> Listener:
    """Builds an HTTP/1.1 listener: the Kubernetes proxy's protocol, then the application."""
    config = uvicorn.Config(
        app,
        host=where[0],
        port=where[1],
        http=protocol,
        ws="wsproto",
        ws_max_size=MOST_BODY_BYTES,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(1, int(drain_seconds)),
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
    )
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        config.ssl.set_alpn_protocols(["http/1.1"])
    return Listener(config)


def agents_server(handlers: Mapping[str, Handler], wire: Wire, clock: Clock) -> Server:
    """Builds the gRPC server for agents, without starting it."""
    limits = ServerLimits()
    if wire is Wire.GRPCIO:
        return grpcio().GrpcioServer(handlers, limits)
    return Http2Server(handlers, limits, clock)


async def listen_for_agents(server: Server, where: tuple[str, int], tls: Credentials) -> int:
    """Starts the server; returns its port. Unavailable: the port is in use."""
    # The server binds by itself; this reports a failure like those of the other listeners.
    bind(where, "agents").close()
    try:
        return await server.start(where, tls)
    except OSError as error:
        reason = error.strerror or error
        raise Unavailable(f"cannot listen on {where[0]}:{where[1]} for agents: {reason}") from None
