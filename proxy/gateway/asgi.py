"""The rest of the port: requests that are not the door's go to the ASGI application.

uvicorn's own protocol serves them; the connection gives it exactly the bytes of one request at a
time, so that neither parser ever sees the other's bytes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fleet.http1.chunked import BadChunk
from proxy.gateway.body import body_of
from proxy.gateway.head import RequestHead


class ApplicationSide(HttpToolsProtocol):
    """uvicorn's protocol, which says when an answer is whole and when it gives the socket away."""

    on_answer: Callable[[], None]
    on_detach: Callable[[], None]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self.on_answer()

    def handle_websocket_upgrade(self) -> None:
        self.on_detach()
        super().handle_websocket_upgrade()


@dataclass(frozen=True, slots=True)
class Application:
    """What uvicorn gives a protocol class to serve its application with."""

    config: Config
    server_state: ServerState
    app_state: dict[str, Any]
    loop: asyncio.AbstractEventLoop | None

    def serve(self, connection: asyncio.Protocol) -> None:
        """uvicorn's shutdown shall know, and wait for, this connection."""
        self._connections.add(connection)

    def release(self, connection: asyncio.Protocol) -> None:
        """The connection has ended, or is uvicorn's own now."""
        self._connections.discard(connection)

    def connect(
        self,
        transport: asyncio.Transport,
        on_answer: Callable[[], None],
        on_detach: Callable[[], None],
    ) -> ApplicationSide:
        """uvicorn's protocol for a connection that is known to uvicorn under another object."""
        side = ApplicationSide(self.config, self.server_state, self.app_state, self.loop)
        side.on_answer, side.on_detach = on_answer, on_detach
        side.connection_made(transport)
        self._connections.discard(side)
        return side

    @property
    def _connections(self) -> set[Any]:
        return self.server_state.connections


class ApplicationTurn:
    """One request for the application."""

    raw = False
    ready = True

    def __init__(self, side: ApplicationSide, head: RequestHead) -> None:
        self._side = side
        self._body = body_of(head)
        self.over = False

    @property
    def request_done(self) -> bool:
        return self._body.done

    def start(self, head: bytes) -> None:
        """Give the head, as it came."""
        self._side.data_received(head)

    def receive(self, data: bytes) -> int:
        """Give what of the bytes belongs to this request; their number."""
        try:
            used, _ = self._body.take(data)
        except BadChunk:
            self._side.send_400_response("Invalid chunked body.")
            return len(data)
        self._side.data_received(data[:used])
        return used
