"""`/healthz`, `/readyz` and `/metrics` on a port of the pod, for the kubelet and Prometheus.

A few lines of HTTP take 3 MB less memory than a web framework and a metrics library.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import Invalid, Unavailable

_MAX_HEAD = 16 << 10
_PATIENCE_S = 5.0
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Vitals:
    """Present state of the agent.

    `state_error`: error of the state directory, or empty. `joining`: the agent has no credentials
    yet.
    """

    linked: bool
    has_been_linked: bool
    services: int
    waiting_reports: int
    running_jobs: int
    state_error: str = ""
    joining: bool = False


Look = Callable[[], Vitals]


@dataclass(frozen=True, slots=True)
class _Page:
    """A response: `status` with its reason, and a body."""

    status: str
    body: str
    content_type: str = _TEXT

    def encode(self) -> bytes:
        body = self.body.encode()
        head = (
            f"HTTP/1.1 {self.status}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


_OK = _Page("200 OK", "ok\n")
_NOT_FOUND = _Page("404 Not Found", "not found\n")


class StatusServer:
    """A small HTTP server; it exposes no names, no secrets and no services."""

    def __init__(self, listen: str, look: Look) -> None:
        self._host, self.port = _address(listen)
        self._read_vitals = look
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Starts to listen. Unavailable: the port is in use."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self.port, limit=_MAX_HEAD
            )
        except OSError as error:
            where = f"{self._host}:{self.port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops the server."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request, and closes the connection."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                head = await reader.readuntil(_END_OF_HEAD)
                writer.write(self._answer(head).encode())
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answer(self, head: bytes) -> _Page:
        method, _, target = head.partition(b"\r\n")[0].partition(b" ")
        match method, target.partition(b" ")[0].partition(b"?")[0]:
            case b"GET", b"/healthz":
                # The agent's event loop runs.
                return _OK
            case b"GET", b"/readyz":
                return _readiness(self._read_vitals())
            case b"GET", b"/metrics":
                return _Page("200 OK", _metrics(self._read_vitals()), _METRICS)
        return _NOT_FOUND


def _readiness(vitals: Vitals) -> _Page:
    """Ready once the agent has reached the control plane since its start, even if it is away
    now.
    """
    if vitals.state_error:
        reason = vitals.state_error
    elif vitals.joining:
        reason = "the cluster has not joined yet"
    elif not vitals.has_been_linked:
        reason = "has not reached the control plane yet"
    else:
        return _OK
    return _Page("503 Service Unavailable", f"{reason}\n")


def _metrics(vitals: Vitals) -> str:
    """Writes the metrics in the text format of Prometheus."""
    return "".join(
        f"# HELP towline_agent_{name} {what}\n# TYPE towline_agent_{name} gauge\n"
        f"towline_agent_{name} {float(value)}\n"
        for name, what, value in (
            (
                "connected",
                "1 if the agent is connected to the control plane, else 0.",
                vitals.linked,
            ),
            ("services", "Number of services with a stored desired state.", vitals.services),
            (
                "waiting_reports",
                "Number of reports that the control plane has not acknowledged.",
                vitals.waiting_reports,
            ),
            ("running_jobs", "Number of unfinished jobs.", vitals.running_jobs),
            (
                "disk_failing",
                "1 if the agent cannot write its state directory, else 0.",
                bool(vitals.state_error),
            ),
        )
    )


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Invalid(f"{listen!r} is not an address to listen on, such as 0.0.0.0:8080")
    return host.strip("[]"), int(port)
