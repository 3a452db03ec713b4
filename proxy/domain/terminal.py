"""Terminal sessions: which requests are one, and in which protocol they speak."""

from dataclasses import dataclass
from urllib.parse import parse_qs

from proxy.domain.attributes import RequestAttributes

TERMINALS = frozenset({"exec", "attach"})
_TRUE = frozenset({"true", "1", ""})


class UnrecordableError(Exception):
    """The bytes of a session are not what its protocol says: it cannot be kept."""


@dataclass(frozen=True, slots=True)
class TerminalSession:
    """A session that is to be kept. `keep_input`: what the user types, too.

    `spdy`: SPDY/3.1; else a WebSocket. `tty`, `container` and `command` are what was asked for.
    """

    title: str
    spdy: bool
    keep_input: bool
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()


def terminal_session(
    attributes: RequestAttributes, query: str, *, spdy: bool, keep_input: bool
) -> TerminalSession | None:
    """The session that a request with this query opens; None: it opens none."""
    if attributes.resource != "pods" or attributes.subresource not in TERMINALS:
        return None
    asked = parse_qs(query, keep_blank_values=True)
    return TerminalSession(
        title=str(attributes),
        spdy=spdy,
        keep_input=keep_input,
        tty=asked.get("tty", ["false"])[0].lower() in _TRUE,
        container=asked.get("container", [""])[0],
        command=tuple(asked.get("command", ())),
    )
