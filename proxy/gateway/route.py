"""Routes of requests to clusters."""

import re
from dataclasses import dataclass

PREFIX = b"/k8s/"
_ROUTE = re.compile(rb"/k8s/clusters/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)(?=[/?]|\Z)")
_MAX_METHOD = 16


@dataclass(frozen=True, slots=True)
class ClusterRoute:
    """Handle of a cluster, and the request target for its API server."""

    handle: str
    target: bytes


def find_route(target: bytes) -> ClusterRoute | None:
    """Finds the route of a target, compared undecoded; None if it names no cluster."""
    match = _ROUTE.match(target)
    if match is None:
        return None
    rest = target[match.end() :]
    return ClusterRoute(match[1].decode(), rest if rest.startswith(b"/") else b"/" + rest)


def is_cluster_request(start: bytes) -> bool | None:
    """Reports whether a request with these first bytes is for a cluster; None: too few bytes."""
    method, space, target = start[: _MAX_METHOD + 1 + len(PREFIX)].partition(b" ")
    if not space:
        return None if len(start) <= _MAX_METHOD else False
    if len(target) < len(PREFIX):
        return None if PREFIX.startswith(target) else False
    return target.startswith(PREFIX)
