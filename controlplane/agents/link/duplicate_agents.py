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
        self._agents: dict[ClusterId, _CurrentAgent] = {}

    def current_peer(self, cluster_id: ClusterId) -> str:
        """Returns the address of the cluster's current agent; empty if there is none."""
        agent = self._agents.get(cluster_id)
        return agent.peer if agent else ""

    def record_connection(self, cluster_id: ClusterId, instance: str, peer: str) -> str:
        """Records a connected agent. Returns an alarm for users if two agents conflict."""
        agent = self._agents.setdefault(cluster_id, _CurrentAgent())
        former_instance, agent.instance = agent.instance, instance
        former_peer, agent.peer = agent.peer, peer
        if former_instance in ("", instance):
            return ""
        now = self._clock.monotonic()
        agent.swaps.append(now)
        if len(agent.swaps) <= _MAX_TAKEOVERS or now - agent.swaps[0] > _WITHIN_S:
            return ""
        agent.alarmed = True
        return (
            f"two agents use this cluster's deploy token and replace each other: {former_peer} and "
            f"{peer}; remove one of them"
        )

    def recovered(self) -> Iterator[ClusterId]:
        """Returns clusters whose conflict has ended since the last call."""
        now = self._clock.monotonic()
        for cluster_id, agent in self._agents.items():
            if agent.alarmed and now - agent.swaps[-1] > _CALM_S:
                agent.alarmed = False
                yield cluster_id
