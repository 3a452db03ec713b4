"""Detects two agents with the same deploy token, as opposed to one agent that reconnects."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.identity import ClusterId
from core.runtime.clock import Clock

_MAX_TAKEOVERS = 3
_WITHIN_S = 60.0
_CALM_S = 300.0


@dataclass(slots=True)
class _CurrentAgent:
    """Current agent of one cluster, and the times of recent changes."""

    instance: str = ""
    peer: str = ""
    swaps: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_TAKEOVERS + 1))
    alarmed: bool = False


class AgentConflicts:
    """Counts how often different agents replace each other in a cluster.

    One replacement is an upgrade or a move; more than three per minute are a conflict.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[ClusterId, _CurrentAgent] = {}

    def holder(self, cluster_id: ClusterId) -> str:
        """Returns the address of the cluster's current agent; empty if there is none."""
        place = self._places.get(cluster_id)
        return place.peer if place else ""

    def came(self, cluster_id: ClusterId, instance: str, peer: str) -> str:
        """Records a connected agent. Returns an alarm for users if two agents conflict."""
        place = self._places.setdefault(cluster_id, _CurrentAgent())
        other, place.instance = place.instance, instance
        before, place.peer = place.peer, peer
        if other in ("", instance):
            return ""
        now = self._clock.monotonic()
        place.swaps.append(now)
        if len(place.swaps) <= _MAX_TAKEOVERS or now - place.swaps[0] > _WITHIN_S:
            return ""
        place.alarmed = True
        return (
            f"two agents use this cluster's deploy token and replace each other: {before} and "
            f"{peer}; remove one of them"
        )

    def recovered(self) -> Iterator[ClusterId]:
        """Returns clusters whose conflict has ended since the last call."""
        now = self._clock.monotonic()
        for cluster_id, place in self._places.items():
            if place.alarmed and now - place.swaps[-1] > _CALM_S:
                place.alarmed = False
                yield cluster_id
