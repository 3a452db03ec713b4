"""Which agent's link leads to which cluster."""

from collections import defaultdict, deque

import structlog

from fleet.identity import ClusterId
from fleet.mux.mux import Mux
from fleet.runtime.clock import Clock

log = structlog.get_logger(__name__)

MOST_SWAPS, SWAP_SECONDS = 3, 60.0


class Registry:
    """One link per cluster for new requests; the newest wins.

    Two agents with one token would take it from each other for ever: after three changes of the
    agent within a minute the newcomer is refused.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[ClusterId, Mux] = {}
        self._swaps: defaultdict[ClusterId, deque[float]] = defaultdict(
            lambda: deque(maxlen=MOST_SWAPS)
        )

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """The link for new requests to a cluster."""
        return self._links.get(cluster_id)

    @property
    def links(self) -> list[Mux]:
        return list(self._links.values())

    def add(self, cluster_id: ClusterId, link: Mux) -> None:
        """A link is ready. One that it replaces may end its streams if the agent is the same."""
        old = self._links.get(cluster_id)
        if old is None or _instance(old) == _instance(link):
            self._links[cluster_id] = link
            if old is not None:
                old.drain(0, "replaced by a newer connection")
        elif self._fight(cluster_id):
            log.error("two agents use one token", cluster=cluster_id)
            link.close("another agent holds this cluster; give each cluster a token of its own")
        else:
            log.warning("another agent took over", cluster=cluster_id)
            self._links[cluster_id] = link
            old.close("another agent connected for this cluster")

    def remove(self, cluster_id: ClusterId, link: Mux) -> None:
        """A link has ended."""
        if self._links.get(cluster_id) is link:
            del self._links[cluster_id]

    def _fight(self, cluster_id: ClusterId) -> bool:
        """Note a change of the agent, unless there have been too many."""
        now, swaps = self._clock.monotonic(), self._swaps[cluster_id]
        if len(swaps) == MOST_SWAPS and now - swaps[0] < SWAP_SECONDS:
            return True
        swaps.append(now)
        return False


def _instance(link: Mux) -> bytes | None:
    return link.peer.instance if link.peer is not None else None
