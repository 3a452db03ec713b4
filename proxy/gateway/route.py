"""Which requests belong to the door, and to which cluster."""

import re
from dataclasses import dataclass

PREFIX = b"/k8s/"
_ROUTE = re.compile(rb"/k8s/clusters/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)(?=[/?]|\Z)")
_LONGEST_METHOD = 16


@dataclass(frozen=True, slots=True)
class Route:
    """A cluster's handle, and the target as its API server shall see it."""

    handle: str
    target: bytes


def find_route(target: bytes) -> Route | None:
    """The route of a target; None: no cluster is meant. Compared undecoded."""
    match = _ROUTE.match(target)
    if match is None:
        return None
    rest = target[match.end() :]
    return Route(match[1].decode(), rest if rest.startswith(b"/") else b"/" + rest)


def is_ours(start: bytes) -> bool | None:
    """Whether a request that starts so is the door's; None: too little is known yet."""
    method, space, target = start[: _LONGEST_METHOD + 1 + len(PREFIX)].partition(b" ")
    if not space:
        return None if len(start) <= _LONGEST_METHOD else False
    if len(target) < len(PREFIX):
        return None if PREFIX.startswith(target) else False
    return target.startswith(PREFIX)
