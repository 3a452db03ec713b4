"""The ASGI application on the same port, for requests that are not for a cluster.
uvicorn's own protocol serves them. The connection passes it exactly the bytes of one request at a
time, so that neither parser sees the other's bytes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from core.http1.chunked import BadChunk
from proxy.gateway.parse.body import body_of
from proxy.gateway.parse.head import RequestHead


class ApplicationProtocol(HttpToolsProtocol):
    """uvicorn's protocol with callbacks for a complete response and for giving the socket away."""

    on_response: Callable[[], None]
    on_detach: Callable[[], None]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self.on_response()

    def handle_websocket_upgrade(self) -> None:
        self.on_detach()
        super().handle_websocket_upgrade()


@dataclass(frozen=True, slots=True)
class Application:
    """The arguments that uvicorn passes to a protocol class."""

    config: Config
    server_state: ServerState
    app_state: dict[str, object]
    loop: asyncio.AbstractEventLoop | None

    def register(self, connection: asyncio.Protocol) -> None:
        """Registers this connection with uvicorn, so that its shutdown waits for it."""
        self._connections.add(connection)

    def unregister(self, connection: asyncio.Protocol) -> None:
        """Removes a connection that has ended or now belongs to uvicorn."""
        self._connections.discard(connection)

    def connect(
        self,
        transport: asyncio.Transport,
        on_response: Callable[[], None],
        on_detach: Callable[[], None],
    ) -> ApplicationProtocol:
        """Creates uvicorn's protocol for a connection that uvicorn knows under another object."""
        protocol = ApplicationProtocol(self.config, self.server_state, self.app_state, self.loop)
        protocol.on_response, protocol.on_detach = on_response, on_detach
        protocol.connection_made(transport)
        self._connections.discard(protocol)
        return protocol

    @property
    def _connections(self) -> set[Any]:
        return self.server_state.connections


class ApplicationRequest:
    """One request for the application."""

    raw = False
    ready = True

    def __init__(self, protocol: ApplicationProtocol, head: RequestHead) -> None:
        self._protocol = protocol
        self._body = body_of(head)
        self.over = False

    @property
    def request_done(self) -> bool:
        return self._body.done

    @property
    def waits_for_user(self) -> bool:
        """Reports whether the rest of the body must come from the user, not from our buffer."""
        return not self._protocol.flow.read_paused

    @property
    def response_begun(self) -> bool:
        """Reports whether the response has begun."""
        return self.over or self._protocol.cycle.response_started

    def start(self, head: bytes) -> None:
        """Passes on the head, unchanged."""
        self._protocol.data_received(head)

    def receive(self, data: bytes) -> int:
        """Passes on the bytes that belong to this request and returns their number."""
        try:
            used, _ = self._body.take(data)
        except BadChunk:
            self._protocol.send_400_response("Invalid chunked body.")
            return len(data)
        self._protocol.data_received(data[:used])
        return used
