"""Location of an agent's link."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkLocation:
    """The replica that holds a link: its id and the address (host:port) where it listens.
    Of two places, the one with the higher epoch is current. `instance` (hex) identifies the agent's
    process.
    """

    replica_id: str
    address: str
    epoch: int
    instance: str = ""


@dataclass(frozen=True, slots=True)
class PeerReplica:
    """Another live replica: its id and the address (host:port) where it listens."""

    replica_id: str
    address: str
