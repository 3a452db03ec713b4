"""How one replica asks another for a request to an agent: OPEN with whom it is for, and as of when.

The head of the request stands behind its kind (u8), the length of the cluster's id (u8), the epoch
of the link that is meant (u64, big-endian) and the id.
"""

import struct
from typing import NamedTuple

from fleet.identity import ClusterId
from fleet.mux.codec import KIND_PASSAGE, Open, ProtocolError

_FIXED = struct.Struct(">BBQ")


class Passage(NamedTuple):
    """A request for the agent of a cluster, by the link of that epoch and no other."""

    cluster_id: ClusterId
    epoch: int
    request: Open


def wrap(cluster_id: ClusterId, epoch: int, request: Open) -> Open:
    """What is sent to the replica that holds the link."""
    name = cluster_id.encode()
    prefix = _FIXED.pack(request.kind, len(name), epoch) + name
    return _with(request, prefix + request.head, KIND_PASSAGE)


def unwrap(request: Open) -> Passage:
    """What another replica has wrapped. ProtocolError: it is no passage."""
    head = request.head
    if request.kind != KIND_PASSAGE or len(head) < _FIXED.size:
        raise ProtocolError("a replica sent what is no passage")
    kind, length, epoch = _FIXED.unpack_from(head)
    end = _FIXED.size + length
    name = head[_FIXED.size : end]
    if kind == KIND_PASSAGE or len(name) < length or not name.isascii():
        raise ProtocolError("a passage that leads nowhere")
    return Passage(ClusterId(name.decode()), epoch, _with(request, head[end:], kind))


def _with(request: Open, head: bytes, kind: int) -> Open:
    """As `dataclasses.replace` does it, which takes most of the time of a passage."""
    flags, window = request.flags, request.window
    return Open(head, request.identity, request.request_id, flags, window, kind)
