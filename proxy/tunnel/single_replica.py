"""Registry of agent links for a single process, which holds all of them."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from core.errors import LimitExceeded
from core.identity import ClusterId
from core.runtime.clock import Clock
from proxy.domain.link_location import LinkLocation, PeerReplica

log = structlog.get_logger(__name__)

MAX_SWAPS, SWAP_SECONDS = 3, 60.0


@dataclass(slots=True)
class _Holder:
    epoch: int = 0
    instance: str | None = None
    peer: str = ""
    swaps: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SWAPS))


class SingleReplicaRegistry:
    """Implements `TunnelRegistry`.
    Two agents with one token would take the cluster from each other for ever. After three changes
    of the agent within a minute, the registry refuses the newcomer for one more minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holders: defaultdict[ClusterId, _Holder] = defaultdict(_Holder)

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """Implements `TunnelRegistry.claim`."""
        holder = self._holders[cluster_id]
        if holder.instance not in (None, instance):
            self._note_swap(cluster_id, holder, peer)
        holder.epoch += 1
        holder.instance, holder.peer = instance, peer
        return holder.epoch

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """Implements `TunnelRegistry.release`."""
        if self._holders[cluster_id].epoch == epoch:
            self._holders[cluster_id].instance = None

    async def locate(self, cluster_id: ClusterId) -> LinkLocation | None:
        """Implements `TunnelRegistry.locate`: there is no other place than this process."""
        return None

    async def lost(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, LinkLocation]:
        """Implements `TunnelRegistry.lost`: a single process never loses a claim."""
        return {}

    async def neighbours(self) -> Sequence[PeerReplica]:
        """Implements `TunnelRegistry.neighbours`: there are none."""
        return ()

    def _note_swap(self, cluster_id: ClusterId, holder: _Holder, peer: str) -> None:
        now, swaps = self._clock.monotonic(), holder.swaps
        often = len(swaps) == MAX_SWAPS and swaps[-1] - swaps[0] < SWAP_SECONDS
        if often and now - swaps[-1] < SWAP_SECONDS:
            log.error("two agents use one token", cluster=cluster_id, peers=[holder.peer, peer])
            raise LimitExceeded(
                f"two agents hold this cluster's token, at {holder.peer} and {peer}; "
                "give each cluster a token of its own",
                retry_after=SWAP_SECONDS,
            )
        swaps.append(now)
