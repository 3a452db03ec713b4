"""Two agents with the same deploy token: told apart from one that comes again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from fleet.identity import ClusterId
from fleet.runtime.clock import Clock

_MOST_SWAPS = 3
_WITHIN_S = 60.0
_CALM_S = 300.0


@dataclass(slots=True)
class _Place:
    """Who holds the place of one cluster's agent, and when that changed."""

    instance: str = ""
    peer: str = ""
    swaps: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_SWAPS + 1))
    alarmed: bool = False


class Rivals:
    """Counts how often a cluster's place passes from one agent to another and back.

    A replacement is an upgrade or a move; more than three a minute are a fight.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[ClusterId, _Place] = {}

    def holder(self, cluster_id: ClusterId) -> str:
        """Where the agent came from that holds the place; empty: none has."""
        place = self._places.get(cluster_id)
        return place.peer if place else ""

    def came(self, cluster_id: ClusterId, instance: str, peer: str) -> str:
        """An agent has connected. What people are to be told, if two agents fight."""
        place = self._places.setdefault(cluster_id, _Place())
        other, place.instance = place.instance, instance
        before, place.peer = place.peer, peer
        if other in ("", instance):
            return ""
        now = self._clock.monotonic()
        place.swaps.append(now)
        if len(place.swaps) <= _MOST_SWAPS or now - place.swaps[0] > _WITHIN_S:
            return ""
        place.alarmed = True
        return (
            f"two agents use this cluster's deploy token and replace each other: {before} and "
            f"{peer}; stop one of them"
        )

    def calmed(self) -> Iterator[ClusterId]:
        """Clusters whose fight has ended since they were last asked for."""
        now = self._clock.monotonic()
        for cluster_id, place in self._places.items():
            if place.alarmed and now - place.swaps[-1] > _CALM_S:
                place.alarmed = False
                yield cluster_id
