"""OPEN frame between replicas, with the target agent and the epoch of its link.
It precedes the request head with its kind (u8), the length of the cluster's id (u8), the epoch of
the intended link (u64, big-endian) and the id.
"""

import struct
from typing import NamedTuple

from core.identity import ClusterId
from core.mux.codec import KIND_FORWARD, Open, ProtocolError

_FIXED = struct.Struct(">BBQ")


class ForwardedRequest(NamedTuple):
    """A request to the agent of a cluster, valid for the link with that epoch only."""

    cluster_id: ClusterId
    epoch: int
    request: Open


def wrap(cluster_id: ClusterId, epoch: int, request: Open) -> Open:
    """Encodes a request for the replica that holds the link."""
    name = cluster_id.encode()
    prefix = _FIXED.pack(request.kind, len(name), epoch) + name
    return _with(request, prefix + request.head, KIND_FORWARD)


def unwrap(request: Open) -> ForwardedRequest:
    """Decodes a request of another replica. ProtocolError: not a valid forward header."""
    head = request.head
    if request.kind != KIND_FORWARD or len(head) < _FIXED.size:
        raise ProtocolError("a replica sent an invalid forwarding frame")
    kind, length, epoch = _FIXED.unpack_from(head)
    end = _FIXED.size + length
    name = head[_FIXED.size : end]
    if kind == KIND_FORWARD or len(name) < length or not name.isascii():
        raise ProtocolError("a forwarding frame has an invalid kind or cluster id")
    return ForwardedRequest(ClusterId(name.decode()), epoch, _with(request, head[end:], kind))


def _with(request: Open, head: bytes, kind: int) -> Open:
    """Copies an OPEN frame; `dataclasses.replace` would take most of the time of a forwarded
    request.
    """
    flags, window = request.flags, request.window
    return Open(head, request.identity, request.request_id, flags, window, kind)
