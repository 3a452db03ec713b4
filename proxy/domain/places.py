"""Where an agent's link is held."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The replica that holds a link: by its id, and by the address (host:port) where it listens.

    Of two places the one with the higher epoch is right. `instance` (hex) names the agent's
    process.
    """

    replica_id: str
    address: str
    epoch: int
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another replica that lives, by its id and by the address (host:port) where it listens."""

    replica_id: str
    address: str
