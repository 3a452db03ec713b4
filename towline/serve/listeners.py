"""Listeners of a control plane: HTTPS and HTTP with uvicorn, gRPC for agents."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from controlplane.http.app import MAX_BODY_BYTES
from core.errors import Invalid
from core.host_names import is_below
from core.rpc.calls import CallServer, Handler, ServerLimits
from core.rpc.http2_server import Http2Server
from core.rpc.implementations import GrpcImplementation
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import Clock
from proxy.fast_path.front import NativeFront
from towline.certificate_authority import (
    CertificateAuthority,
    CertificatePair,
    certificate_expiry,
    certificate_names,
    check_certificate,
)
from towline.serve.sockets import OFF, SETTINGS, Listener, address, bind, listen_error
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


def check_ports(settings: ServeSettings, *, peers: bool) -> None:
    """Opens all ports together and closes them, before a replica works on the store.

    The listeners bind them again, after the components that they serve: a port that listens accepts
    clients, which no component would answer yet. `peers`: the git cache listens for other replicas.
    Unavailable: a port is in use, or two listeners have the same one.
    """
    unused = {"peers": not peers, "replicas": settings.redis is None}
    with ExitStack() as bound:
        for name, setting in SETTINGS.items():
            text = getattr(settings, setting)
            if text != OFF and not unused.get(name):
                bound.enter_context(bind(address(text, setting), name))


def server_certificate(
    settings: TlsSettings, folder: Path, clock: Clock, cluster_domain: str = ""
) -> CertificatePair:
    """Returns the configured certificate, or one of Towline's own CA.

    The latter is also for all names of clusters. It is renewed 30 days before it expires, and if
    names were added. Invalid: the configured certificate is not usable.
    """
    if settings.cert and settings.key:
        configured = CertificatePair(settings.cert, settings.key)
        check_certificate(configured, clock.now())
        return configured
    if settings.cert or settings.key:
        raise Invalid("set both cert and key, or neither", field="tls")
    now = clock.now()
    authority = _authority(folder, now)
    names = (*settings.names, *([f"*.{cluster_domain}"] if cluster_domain else []))
    own_certificate = CertificatePair(folder / "server.crt", folder / "server.key")
    is_ours = _is_current(own_certificate, now) and authority.has_signed(own_certificate)
    if is_ours and certificate_names(own_certificate.certificate) >= set(names):
        return own_certificate
    return authority.sign("server", "towline", now, names=names)


def _authority(folder: Path, now: datetime) -> CertificateAuthority:
    """Opens Towline's own CA, or creates it at the first start. Invalid: files are missing."""
    if (folder / "ca.crt").exists():
        return CertificateAuthority.open(folder)
    if (folder / "ca.key").exists():
        # The certificate was lost, or the first start was killed right before it was written.
        return CertificateAuthority.certify(folder, _AUTHORITY, now)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return CertificateAuthority.create(folder, _AUTHORITY, now)


def _is_current(pair: CertificatePair, now: datetime) -> bool:
    """Returns true if a certificate of Towline's own CA is valid for more than 30 days."""
    if not (pair.certificate.exists() and pair.key.exists()):
        return False
    try:
        check_certificate(pair, now)
    except Invalid:
        return False
    return (certificate_expiry(pair.certificate) - now).days > _RENEW_DAYS


def own_host_names(settings: ServeSettings, tls: CertificatePair) -> set[str]:
    """Host names of this process: from its certificate and settings, without those of clusters."""
    public = urlsplit(settings.auth.public_url).hostname
    names = {*certificate_names(tls.certificate), *settings.hosts, *([public] if public else [])}
    return {name for name in names if not is_below(name.lower(), settings.proxy.cluster_domain)}


def http_listener(
    app: ASGIApp,
    protocol: type[asyncio.Protocol],
    host_and_port: tuple[str, int],
    tls: CertificatePair | None,
    settings: ServeSettings,
) -> Listener:
    """Builds an HTTP/1.1 listener: the Kubernetes proxy's protocol, then the application."""
    config = _http_config(app, protocol, settings.drain_seconds)
    config.host, config.port = host_and_port
    if tls is not None:
        config.ssl_certfile, config.ssl_keyfile = str(tls.certificate), str(tls.key)
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        config.ssl.set_alpn_protocols(["http/1.1"])
    return Listener(config, settings.proxy_protocol_senders)


def backend_listener(
    app: ASGIApp, protocol: type[asyncio.Protocol], path: Path, drain_seconds: float
) -> Listener:
    """Builds the listener behind the native one, on a Unix socket."""
    config = _http_config(app, protocol, drain_seconds)
    config.uds = str(path)
    config.load()
    return Listener(config)


def listen_natively(
    front: NativeFront, name: str, host_and_port: tuple[str, int], tls: CertificatePair | None
) -> int:
    """Listens for users with the native data plane; returns the port. Unavailable: the port is in
    use. Invalid: the certificate is not usable.
    """
    # The native code does not tell the number of the error.
    bind(host_and_port, name).close()
    try:
        return front.listen(*host_and_port, (tls.certificate, tls.key) if tls is not None else None)
    except OSError as error:
        raise listen_error(host_and_port, name, error) from None
    except ValueError as error:
        raise Invalid(str(error), field="tls") from None


def _http_config(
    app: ASGIApp, protocol: type[asyncio.Protocol], drain_seconds: float
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws="wsproto",
        ws_max_size=MAX_BODY_BYTES,
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(1, int(drain_seconds)),
    )


def agents_server(
    handlers: Mapping[str, Handler],
    settings: ServeSettings,
    clock: Clock,
    bridged: BridgedPeers,
) -> CallServer:
    """Builds the gRPC server for agents, without starting it."""
    limits = ServerLimits()
    if settings.agents_wire is GrpcImplementation.GRPCIO:
        # Its libraries need about 10 MB.
        from core.rpc.grpcio import GrpcioServer

        return GrpcioServer(handlers, limits)
    return Http2Server(
        handlers,
        limits,
        clock,
        bridged,
        settings.proxy_protocol_senders,
        native_tls=settings.proxy.uses_native,
    )


async def listen_for_agents(
    server: CallServer, host_and_port: tuple[str, int], tls: CertificatePair
) -> int:
    """Starts the server; returns its port. Unavailable: the port is in use."""
    # The server binds by itself; this reports a failure like those of the other listeners.
    bind(host_and_port, "agents").close()
    try:
        return await server.start(host_and_port, tls)
    except OSError as error:
        raise listen_error(host_and_port, "agents", error) from None
