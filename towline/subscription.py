"""Waits for changes by a subscription over graphql-transport-ws."""

import json
import ssl
from urllib.parse import urlsplit

import websocket

from core.errors import Unavailable
from core.json_object import JsonObject
from towline.contexts import ControlPlaneTarget

_PROTOCOL = "graphql-transport-ws"
_CONNECT_SECONDS = 10.0
_QUIET_SECONDS = 0.3
_MAX_MESSAGES = 1_000
_FAILURES = (websocket.WebSocketException, OSError, ValueError, KeyError)


class Subscription:
    """One subscription; its messages tell only that something changed."""

    def __init__(self, target: ControlPlaneTarget, document: str) -> None:
        parts = urlsplit(target.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        try:
            self._socket = websocket.create_connection(
                f"{scheme}://{parts.netloc}{parts.path}/gql",
                timeout=_CONNECT_SECONDS,
                subprotocols=[_PROTOCOL],
                suppress_origin=True,
                sslopt={"context": ssl.create_default_context(cadata=target.ca or None)},
            )
        except _FAILURES as error:
            raise Unavailable(f"cannot subscribe: {error}") from None
        try:
            self._send(type="connection_init", payload={"token": target.token})
            if self._receive()["type"] != "connection_ack":
                raise ValueError("the control plane did not acknowledge")
            self._send(type="subscribe", id="1", payload={"query": document})
        except _FAILURES as error:
            self.close()
            raise Unavailable(f"cannot subscribe: {error}") from None

    def wait(self, seconds: float) -> None:
        """Returns after a change and a moment without another one, or after some seconds.

        Unavailable: the connection ended.
        """
        timeout = seconds
        for _ in range(_MAX_MESSAGES):
            self._socket.settimeout(timeout)
            try:
                kind = self._receive()["type"]
            except websocket.WebSocketTimeoutException:
                return
            except _FAILURES as error:
                raise Unavailable(f"the subscription ended: {error}") from None
            if kind == "ping":
                self._send(type="pong")
            elif kind == "next":
                timeout = _QUIET_SECONDS
            else:
                raise Unavailable(f"the subscription ended: {kind}")

    def close(self) -> None:
        self._socket.close()
        # After the other end closed, `close` leaves the socket open.
        self._socket.shutdown()

    def _send(self, **message: object) -> None:
        self._socket.send(json.dumps(message))

    def _receive(self) -> JsonObject:
        return json.loads(self._socket.recv())
