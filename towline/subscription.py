"""Subscriptions over graphql-transport-ws."""

import json
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import websocket

from core.errors import Unavailable
from core.json_object import JsonObject
from core.tls import client_context
from towline.contexts import ControlPlaneTarget
from towline.operations import GraphQLDocument

_PROTOCOL = "graphql-transport-ws"
_CONNECT_SECONDS = 10.0
_QUIET_SECONDS = 0.3
_MAX_MESSAGES = 1_000
_FAILURES = (websocket.WebSocketException, OSError, ValueError, KeyError)

Data = TypeVar("Data")


class Subscription(Generic[Data]):
    """One subscription. Unavailable: the control plane does not answer, or refuses."""

    def __init__(
        self, target: ControlPlaneTarget, document: GraphQLDocument[Data], **variables: object
    ) -> None:
        parts = urlsplit(target.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        try:
            self._socket = websocket.create_connection(
                f"{scheme}://{parts.netloc}{parts.path}/gql",
                timeout=_CONNECT_SECONDS,
                subprotocols=[_PROTOCOL],
                suppress_origin=True,
                sslopt={"context": client_context(text=target.ca)},
            )
        except _FAILURES as error:
            raise Unavailable(f"cannot subscribe: {error}") from None
        try:
            self._send(type="connection_init", payload={"token": target.token})
            if self._receive()["type"] != "connection_ack":
                raise ValueError("the control plane did not acknowledge")
            self._send(
                type="subscribe", id="1", payload={"query": document, "variables": variables}
            )
        except _FAILURES as error:
            self.close()
            raise Unavailable(f"cannot subscribe: {error}") from None

    def changes(self, seconds: float) -> list[Data]:
        """Returns the first change and those that follow within moments; none after some seconds.

        Unavailable: the connection ended.
        """
        received: list[Data] = []
        for _ in range(_MAX_MESSAGES):
            self._socket.settimeout(_QUIET_SECONDS if received else seconds)
            try:
                message = self._receive()
            except websocket.WebSocketTimeoutException:
                break
            except _FAILURES as error:
                raise Unavailable(f"the subscription ended: {error}") from None
            if message["type"] == "ping":
                self._send(type="pong")
            elif message["type"] == "next":
                if errors := message["payload"].get("errors"):
                    raise Unavailable(f"the subscription failed: {errors[0]['message']}")
                received.append(message["payload"]["data"])
            else:
                raise Unavailable(f"the subscription ended: {message['type']}")
        return received

    def close(self) -> None:
        self._socket.close()
        # After the other end closed, `close` leaves the socket open.
        self._socket.shutdown()

    def _send(self, **message: object) -> None:
        self._socket.send(json.dumps(message))

    def _receive(self) -> JsonObject:
        return json.loads(self._socket.recv())
