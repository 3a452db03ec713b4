"""The listeners of a control plane: HTTPS and HTTP through uvicorn, gRPC for agents."""

import asyncio
import ssl
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import uvicorn
from starlette.types import ASGIApp

from controlplane.http.app import MOST_BODY_BYTES
from fleet.errors import Invalid, Unavailable
from fleet.runtime.clock import Clock
from towline.authority import Authority, Credentials, check, expires, names_of
from towline.serve.sockets import OFF, Listener, address, bind
from towline.settings import ServeSettings, TlsSettings

_NEVER_OFF = frozenset({"listen", "listen_agents"})
_RENEW_DAYS = 30
_AUTHORITY = "Towline authority"
# An agent always has a call open; one whose token is refused has none.
_WITHOUT_CALL_SECONDS = 30.0
_GRPC_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_send_message_length", 4 << 20),
    ("grpc.max_concurrent_streams", 64),
    # Agents ping an idle connection every 120 s; gRPC's default would cut them off for it.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
)


def check_addresses(settings: ServeSettings) -> None:
    """Judge what each listener is told, before any of them is open. Invalid: names the setting."""
    for name in type(settings).model_fields:
        text = getattr(settings, name)
        if name in _NEVER_OFF or (name.startswith("listen_") and text != OFF):
            address(text, name)


def credentials(settings: TlsSettings, folder: Path, clock: Clock) -> Credentials:
    """The given certificate, or one of the own authority. Invalid: what is given is not good.

    The latter is made anew a month before its end, and when names were added.
    """
    if settings.cert and settings.key:
        given = Credentials(settings.cert, settings.key)
        check(given, clock.now())
        return given
    if settings.cert or settings.key:
        raise Invalid("give both a certificate and its key, or none", field="tls")
    now = clock.now()
    authority = _authority(folder, now)
    made = Credentials(folder / "server.crt", folder / "server.key")
    is_ours = _is_good(made, now) and authority.has_signed(made)
    if is_ours and names_of(made.certificate) >= set(settings.names):
        return made
    return authority.sign("server", "towline", now, names=settings.names)


def _authority(folder: Path, now: datetime) -> Authority:
    """Our own, made at the first start. Invalid: it is not whole."""
    if (folder / "ca.crt").exists():
        return Authority.open(folder)
    if (folder / "ca.key").exists():
        # The certificate was lost, or the first start was killed right before it was written.
        return Authority.certify(folder, _AUTHORITY, now)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Authority.create(folder, _AUTHORITY, now)


def _is_good(made: Credentials, now: datetime) -> bool:
    """Whether what we signed ourselves is still whole, and for more than a month."""
    if not (made.certificate.exists() and made.key.exists()):
        return False
    try:
        check(made, now)
    except Invalid:
        return False
    return (expires(made.certificate) - now).days > _RENEW_DAYS


def known_hosts(settings: ServeSettings, tls: Credentials) -> set[str]:
    """The names under which this process answers: of its certificate, and as settings say."""
    public = urlsplit(settings.auth.public_url).hostname
    return {*names_of(tls.certificate), *settings.hosts, *([public] if public else [])}


def http_listener(
    app: ASGIApp,
    protocol: type[asyncio.Protocol],
    where: tuple[str, int],
    tls: Credentials | None,
    drain_seconds: float,
) -> Listener:
    """HTTP/1.1 on an address: the door's protocol, with the application behind it."""
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


async def agents_server(
    handlers: tuple[grpc.GenericRpcHandler, ...],
    where: tuple[str, int],
    tls: Credentials,
    without_call: float = _WITHOUT_CALL_SECONDS,
) -> tuple[grpc.aio.Server, int]:
    """The gRPC server for agents, not yet started, and its port. Unavailable: it is taken.

    It ends connections on which for `without_call` seconds there was no TLS, or no open call.
    """
    # gRPC binds by itself, and says what hinders it to its own log only.
    bind(where, "agents").close()
    milliseconds = int(without_call * 1000)
    server = grpc.aio.server(
        options=(
            *_GRPC_OPTIONS,
            ("grpc.max_connection_idle_ms", milliseconds),
            ("grpc.server_handshake_timeout_ms", milliseconds),
        )
    )
    server.add_generic_rpc_handlers(handlers)
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    try:
        port = server.add_secure_port(f"{where[0]}:{where[1]}", grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        await server.stop(None)
        raise Unavailable(f"cannot listen on {where[0]}:{where[1]} for agents") from None
    return server, port
