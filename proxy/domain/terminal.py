"""Terminal sessions: detection of their requests, and their protocol."""

from dataclasses import dataclass
from urllib.parse import parse_qs

from proxy.domain.attributes import RequestAttributes

TERMINALS = frozenset({"exec", "attach"})
_TRUE = frozenset({"true", "1", ""})


class UnrecordableError(Exception):
    """The bytes of a session violate its protocol, so that it cannot be recorded."""


@dataclass(frozen=True, slots=True)
class TerminalSession:
    """A terminal session to record.
    `keep_input`: also record the user's input. `spdy`: SPDY/3.1, otherwise a WebSocket. `tty`,
    `container` and `command` come from the request.
    """

    title: str
    spdy: bool
    keep_input: bool
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()


def reaches_kubelet(attributes: RequestAttributes) -> bool:
    """True for requests to the API of a node: it opens terminals that cannot be recorded."""
    is_proxy = "proxy" in (attributes.subresource, attributes.verb)
    return attributes.resource == "nodes" and is_proxy


def terminal_session(
    attributes: RequestAttributes, query: str, *, spdy: bool, keep_input: bool
) -> TerminalSession | None:
    """The terminal session that a request opens; None if it opens none."""
    if attributes.resource != "pods" or attributes.subresource not in TERMINALS:
        return None
    parameters = parse_qs(query, keep_blank_values=True)
    return TerminalSession(
        title=str(attributes),
        spdy=spdy,
        keep_input=keep_input,
        tty=parameters.get("tty", ["false"])[0].lower() in _TRUE,
        container=parameters.get("container", [""])[0],
        command=tuple(parameters.get("command", ())),
    )
