"""Registry of agent links for a single process, which holds all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from core.errors import LimitExceeded
from core.identity import ClusterId
from core.runtime.clock import Clock
from core.spec.tunnels import Tunnel
from proxy.domain.link_location import LinkLocation, PeerReplica

log = structlog.get_logger(__name__)

_THIS_REPLICA = "this"


class SingleReplicaRegistry:
    """Implements `TunnelRegistry`.
    Two agents with one token would take the cluster from each other forever. After three changes
    of the agent within a minute, the registry refuses the newcomer for one more minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tunnels: dict[ClusterId, Tunnel] = {}

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """Implements `TunnelRegistry.claim`."""
        now = self._clock.now()
        previous = self._tunnels.get(cluster_id) or Tunnel(cluster_id, now)
        try:
            claimed = previous.claimed(_THIS_REPLICA, instance, peer, now)
        except LimitExceeded:
            log.error("two agents use one token", cluster=cluster_id, peers=[previous.peer, peer])
            raise
        self._tunnels[cluster_id] = claimed
        return claimed.epoch

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """Implements `TunnelRegistry.release`."""
        tunnel = self._tunnels.get(cluster_id)
        if tunnel is not None and tunnel.epoch == epoch:
            self._tunnels[cluster_id] = replace(tunnel, replica_id=None)

    async def locate(self, cluster_id: ClusterId) -> LinkLocation | None:
        """Implements `TunnelRegistry.locate`: this process holds all links."""
        return None

    async def moved_links(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, LinkLocation]:
        """Implements `TunnelRegistry.moved_links`: a single process never loses a claim."""
        return {}

    async def other_replicas(self) -> Sequence[PeerReplica]:
        """Implements `TunnelRegistry.other_replicas`: there are none."""
        return ()
