"""The native end of users' connections, with the Unix socket on which Python serves the rest."""

import asyncio
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from uvicorn.config import Config
from uvicorn.server import ServerState

from core.native import HubSettings, NativeHub, native_hub
from core.trusted_proxies import TrustedProxies
from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts
from proxy.fast_path.connection import PassedConnection
from proxy.fast_path.repeats import RepeatedReads
from proxy.fast_path.splices import SplicedRequests
from proxy.gateway.connection import UserConnection
from proxy.gateway.error_response import ErrorResponse, encode
from proxy.gateway.forward.open_request import OpenRequest
from proxy.tunnel.data_links import DataLinks

# HTTP/2 counts a field of a head by this more than its text (RFC 9113 section 6.5.2).
_FIELD_OVERHEAD = 32
_TOO_MANY_CONNECTIONS = ErrorResponse(503, "too many connections are open")


@dataclass(frozen=True, slots=True)
class Backend:
    """The Unix socket on which Python serves, in a folder that only this user can enter."""

    folder: Path = field(
        default_factory=lambda: Path(gettempdir(), f"towline-{secrets.token_hex(8)}")
    )

    @property
    def path(self) -> Path:
        return self.folder / "users"

    def start(self) -> None:
        """Creates the folder. FileExistsError: another user has created it."""
        self.folder.mkdir(mode=0o700)

    def stop(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class NativeFront:
    """Listens for users instead of uvicorn, which serves `backend` with `protocol_class`."""

    backend: Backend
    hub: NativeHub
    links: DataLinks
    repeats: RepeatedReads
    splices: SplicedRequests
    protocol_class: type[asyncio.Protocol]

    def start(self) -> None:
        """Starts the components beside the hub. Raises OSError."""
        self.backend.start()
        self.repeats.start()
        self.splices.start()
        self.links.start()

    def listen(self, host: str, port: int, tls: tuple[Path, Path] | None) -> int:
        """Listens for users; returns the port. `tls`: files of a certificate and its key.
        OSError, ValueError: see `NativeHub.listen`.
        """
        certificate, key = map(str, tls) if tls is not None else (None, None)
        bound = self.hub.listen(host, port, certificate, key)
        if tls is not None:
            self.links.port = bound
        return bound

    def drain(self) -> None:
        """Stops listening, and leaves all further requests to Python."""
        self.hub.stop_listening()
        self.hub.drain()

    def open_requests(self) -> list[OpenRequest]:
        """Lists the open requests whose bytes the hub moves."""
        return [*self.repeats.requests(), *self.splices.requests()]

    async def stop(self) -> None:
        """Stops all components."""
        await self.repeats.stop()
        self.splices.stop()
        await self.links.tasks.stop()
        self.backend.stop()


def make_hub(
    backend: Backend,
    head: HeadLimits,
    limits: StreamLimits,
    timeouts: Timeouts,
    memory: int,
    balancers: TrustedProxies | None,
    *,
    http2: bool,
) -> NativeHub:
    """Creates the native hub in front of a backend. `balancers` send the PROXY protocol."""
    settings = HubSettings(
        backend=str(backend.path),
        idle=timeouts.idle,
        answer=timeouts.answer,
        stalled=timeouts.stalled,
        max_connections=limits.connections,
        memory=memory,
        full=encode(_TOO_MANY_CONNECTIONS, close=True),
        proxy_protocol=balancers.networks if balancers is not None else [],
        http2=http2,
        max_streams=limits.per_connection,
        max_head=head.size + _FIELD_OVERHEAD * head.fields,
    )
    return native_hub(settings)


def make_passed_class(
    hub: NativeHub,
    repeats: RepeatedReads,
    splices: SplicedRequests,
    user_class: type[UserConnection],
) -> type[asyncio.Protocol]:
    """The protocol class to give to `uvicorn.Config(http=...)` for the backend."""
    learn = repeats.learn

    class PassedProtocol(PassedConnection):
        __slots__ = ()

        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, object],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            user = user_class(config, server_state, app_state, _loop)  # ty: ignore
            super().__init__(hub, user, learn, splices)

    return PassedProtocol
