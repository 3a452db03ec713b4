"""The native extension module `towline_native`, which is optional; its source is `proxy/native`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

from core.errors import Unavailable

_module: Any
try:
    import towline_native as _module
except ImportError:
    _module = None

# Equals `INTERFACE` of `proxy/native/src/python.rs`.
INTERFACE = 11

Ends = tuple[int, str, int, int, int, int, Sequence[tuple[str, float, int]]]
Question = tuple[int, bytes, bytes, bytes, bool]
Report = tuple[int, int, int, int, int]
OpenRow = tuple[int, int, str, str, int, float, float, int]


class NativeHub(Protocol):
    """The control plane's end, in a thread of its own; no call blocks."""

    def listen(
        self, host: str, port: int, certificate: str | None = None, key: str | None = None
    ) -> int:
        """Listens for users and returns the port. OSError: the port is in use. ValueError: the
        certificate is not usable.
        """
        ...

    def stop_listening(self) -> None: ...

    def connections(self) -> int:
        """Number of open connections of users."""
        ...

    def drain(self) -> None:
        """Leaves all further requests to Python, and closes idle connections."""
        ...

    def close(self) -> None: ...

    def offer_link(self) -> tuple[int, str]:
        """Offers a data link; returns its number, and the ticket that opens it once."""
        ...

    def link_is_open(self, link: int) -> bool: ...

    def link_round_trip(self, link: int) -> float:
        """Measured round trip of a data link in seconds; 0: unknown, or the link is not open."""
        ...

    def close_link(self, link: int) -> None: ...

    def teach(
        self,
        link: int,
        head: bytes,
        identity: bytes,
        before: bytes,
        after: bytes,
        lifetime: float,
        late: bytes,
        user: str,
        room: int,
    ) -> int:
        """Serves requests with this head natively; returns the verdict's number, 0: it does not.
        `before` and `after` surround the audit ID in the head to send. `late`: the response if the
        API server does not answer. `user`, `room`: the unit of the limit, and its open requests.
        """
        ...

    def forget(self) -> None:
        """Forgets all verdicts."""
        ...

    def sweep(self) -> None:
        """Drops what has expired."""
        ...

    def load(self, user: str) -> int:
        """Open requests of a `user` of `teach`."""
        ...

    def rest(self, connection: int, read: int, written: int) -> None:
        """Python expects a request, after it has read and written these numbers of bytes."""
        ...

    def abort(self, connection: int) -> None:
        """The user's connection must end with a reset."""
        ...

    def ends(self) -> int:
        """Descriptor that is readable while ended requests wait. OSError: no descriptor is free."""
        ...

    def take_ends(self, most: int) -> Sequence[Ends]:
        """Takes up to `most` ended requests, in groups: verdict, host and port of one source,
        status, number of the reason, number of the request if Python has ended it, ends. An end:
        audit ID, seconds, bytes.
        """
        ...

    def take_refused(self) -> Sequence[tuple[str, str]]:
        """Takes the connections that ended because a load balancer sent no valid header: address
        and reason.
        """
        ...

    def open_requests(self) -> Sequence[OpenRow]:
        """Open requests: number, verdict, audit ID, host and port of the source, begin, age,
        bytes.
        """
        ...

    def end(self, number: int, response: bytes) -> None:
        """Ends an open request, with this response if none has begun. One that was handed over is
        then given back.
        """
        ...

    def splice(
        self,
        connection: int,
        read: int,
        written: int,
        link: int,
        identity: bytes,
        before: bytes,
        after: bytes,
        id: bytes,
        upgrade: bool,
        long_running: bool,
        keep_alive: bool,
        user: bytes,
    ) -> int:
        """Hands a request over, whose bytes move natively from then on; returns its number, 0: it
        does not take it. Python has `read` and `written` these numbers of bytes of its connection.
        `before` and `after` surround the audit ID `id` in the head to send. `upgrade`: after a 101,
        raw bytes follow in both directions. `long_running`: the connection ends when the response
        begins; otherwise it serves the user's next request. `keep_alive`: one may follow. `user`:
        the unit of memory for slow readers.
        """
        ...

    def reports(self) -> int:
        """Descriptor that is readable while reports wait. OSError: no descriptor is free."""
        ...

    def take_reports(self, most: int) -> Sequence[Report]:
        """Takes up to `most` reports about requests that were handed over: number, state, status,
        bytes in and out. States: those of `take_ends`, and 5: nothing was sent to the API server,
        6: no response has begun, 7: the response has begun.
        """
        ...

    def spliced(self) -> Sequence[tuple[int, int, int]]:
        """Open requests that were handed over: number, bytes in and out."""
        ...

    def end_between_events(self, number: int) -> None:
        """Ends a watch that was handed over as soon as it is between two events."""
        ...


class NativeTlsListener(Protocol):
    """Ports with TLS, in a thread of its own; no call blocks. It passes connections on to a server
    in Python over a Unix socket, with the host and port of their client as the first line.
    """

    def listen(
        self,
        host: str,
        port: int,
        certificate: str,
        key: str,
        proxy_protocol: Sequence[str],
    ) -> int:
        """Listens and returns the port. `proxy_protocol`: networks of the load balancers that name
        their clients. OSError: the port is in use. ValueError: the certificate is not usable.
        """
        ...

    def stop_listening(self) -> None:
        """Accepts no more connections; accepted ones stay open."""
        ...

    def take_refused(self) -> Sequence[tuple[str, str]]:
        """Takes the connections without a valid header; see `NativeHub.take_refused`."""
        ...


class NativeAgentLink(Protocol):
    """A data link of an agent."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Reports whether requests are open."""
        ...

    def close(self) -> None: ...


class NativeAgent(Protocol):
    """The agent's end, in a thread of its own; no call blocks."""

    def admit(
        self,
        identity: bytes,
        before: bytes,
        after: bytes,
        send_before: bytes,
        send_after: bytes,
        lifetime: float,
    ) -> None:
        """Admits requests with this identity and this head around the audit ID, to be sent as
        `send_before`, audit ID, `send_after`, the credential.
        """
        ...

    def set_credential(self, fields: bytes, lifetime: float) -> None: ...

    def clear(self) -> None:
        """Forgets what was admitted, and ends all open requests."""
        ...

    def questions(self) -> int:
        """Descriptor that is readable while questions wait. OSError: no descriptor is free."""
        ...

    def take_questions(self, most: int) -> Sequence[Question]:
        """Takes up to `most` requests that were not admitted: number of the question, identity,
        head, audit ID, whether it asks for an upgrade. Each waits 5 s for `answer`.
        """
        ...

    def answer(self, number: int, request: bytes | None) -> None:
        """Answers a question with the bytes to send; None: the request is declined, so that it
        comes over the control link.
        """
        ...

    def open_link(
        self, host: str, port: int, authorities: Sequence[bytes] | None, ticket: str
    ) -> NativeAgentLink:
        """Opens a data link in the background. `authorities` (DER): None means no TLS."""
        ...


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Settings of the control plane's end.

    `backend`: the Unix socket on which Python serves. `idle`, `answer`, `stalled`: see
    `proxy.domain.limits.Timeouts`. `memory`: bytes that may wait for slow readers. `full`: the
    response above `max_connections`. `proxy_protocol`: networks of the load balancers that name
    their clients. `http2`: TLS offers HTTP/2 too, with `max_streams` open requests of a connection
    and heads of `max_head` bytes, counted as in RFC 9113 section 6.5.2.
    """

    backend: str
    idle: float
    answer: float
    stalled: float
    max_connections: int
    memory: int
    full: bytes
    proxy_protocol: Sequence[str]
    http2: bool
    max_streams: int
    max_head: int


def is_available() -> bool:
    """Reports whether the module is installed. Unavailable: see `check_interface`."""
    if _module is not None:
        check_interface(_module)
    return _module is not None


def check_interface(module: object) -> None:
    """Compares the interface of the installed module with this code. Unavailable: they differ, so
    the module was built from other sources.
    """
    interface = getattr(module, "INTERFACE", "none")
    if interface != INTERFACE:
        raise Unavailable(
            f"the installed module towline_native is of another version: its interface is "
            f"{interface}, and this code needs {INTERFACE}; run make setup"
        )


def data_link_version() -> int:
    """Returns the version of the module's data links: both ends of one need the same."""
    return cast(int, _module.DATA_LINK_VERSION)


def describe_data_link_versions(control_plane: int, agent: int) -> str:
    """Says that two ends can open no data link, and what to do. Empty: they have the same version,
    or one of them opens none.
    """
    if not control_plane or not agent or control_plane == agent:
        return ""
    return (
        f"the data link of the control plane has version {control_plane}, that of the agent "
        f"version {agent}, so all requests of users take the slower control link: run the same "
        "release of both"
    )


def native_hub(settings: HubSettings) -> NativeHub:
    """Creates the control plane's end."""
    return cast(NativeHub, _module.NativeHub(**asdict(settings)))


def native_tls_listener(backend: str, handshake: float) -> NativeTlsListener:
    """Creates a listener in front of the Unix socket `backend`. `handshake`: seconds for TLS."""
    return cast(NativeTlsListener, _module.NativeTlsListener(backend, handshake))


def native_agent(host: str, port: int, authorities: Sequence[bytes] | None) -> NativeAgent:
    """Creates the agent's end. `authorities`: those of the API server, DER; None: plain HTTP."""
    return cast(NativeAgent, _module.NativeAgent(host, port, authorities))
