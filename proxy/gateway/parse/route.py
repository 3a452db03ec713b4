"""Routes of requests to clusters."""

import re
from dataclasses import dataclass

PREFIX = b"/k8s/"
_HANDLE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ROUTE = re.compile(rf"/k8s/clusters/({_HANDLE})(?=[/?]|\Z)".encode())
_MAX_METHOD = 16
_MAX_START = 512


@dataclass(frozen=True, slots=True)
class ClusterRoute:
    """Handle of a cluster, and the request target for its API server.
    `by_host`: the name of the host has the handle; no page of ours is served there.
    """

    handle: str
    target: bytes
    by_host: bool = False


def is_handle(text: str) -> bool:
    """Reports whether a cluster can have this handle."""
    return re.fullmatch(_HANDLE, text) is not None


def find_route(target: bytes) -> ClusterRoute | None:
    """Finds the route of a target, compared undecoded; None if it names no cluster."""
    match = _ROUTE.match(target)
    if match is None:
        return None
    rest = target[match.end() :]
    return ClusterRoute(match[1].decode(), rest if rest.startswith(b"/") else b"/" + rest)


def is_cluster_request(start: bytes) -> bool | None:
    """Reports whether a request with these first bytes is for a cluster; None: too few bytes."""
    space = start.find(b" ", 0, _MAX_METHOD + 1)
    if space < 0:
        return None if len(start) <= _MAX_METHOD else False
    target = start[space + 1 : space + 1 + len(PREFIX)]
    if len(target) < len(PREFIX):
        return None if PREFIX.startswith(target) else False
    return target == PREFIX


@dataclass(frozen=True, slots=True)
class ClaimedRoute:
    """Method and handle in the first bytes of a refused head, for its audit row. `handle` is empty
    if the path names no cluster.
    """

    method: str
    handle: str


def claimed_route(start: bytes, by_host: str | None = None) -> ClaimedRoute | None:
    """Reads the route of a refused head; None: it is not for a cluster.
    `by_host`: handle in the name of the host, "" if it is none; None: the path has it.
    """
    method, _, target = start[:_MAX_START].partition(b" ")
    if by_host is None and not target.startswith(PREFIX):
        return None
    name = method[:_MAX_METHOD].decode("ascii", "replace")
    if by_host is not None:
        return ClaimedRoute(name, by_host)
    route = find_route(target.partition(b" ")[0])
    return ClaimedRoute(name, route.handle if route else "")
