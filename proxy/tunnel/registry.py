"""Which agent's link leads to which cluster."""

import structlog

from fleet.identity import ClusterId
from fleet.mux.mux import Mux

log = structlog.get_logger(__name__)


class Registry:
    """One link per cluster for new requests; the newest wins."""

    def __init__(self) -> None:
        self._links: dict[ClusterId, Mux] = {}

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """The link for new requests to a cluster."""
        return self._links.get(cluster_id)

    @property
    def links(self) -> list[Mux]:
        return list(self._links.values())

    def add(self, cluster_id: ClusterId, link: Mux) -> None:
        """A link is ready. One that it replaces may end its streams if the agent is the same."""
        old = self._links.get(cluster_id)
        self._links[cluster_id] = link
        if old is None or link.peer is None or old.peer is None:
            return
        if old.peer.instance == link.peer.instance:
            old.drain(0, "replaced by a newer connection")
        else:
            log.warning("another agent took over", cluster=cluster_id)
            old.close("another agent connected for this cluster")

    def remove(self, cluster_id: ClusterId, link: Mux) -> None:
        """A link has ended."""
        if self._links.get(cluster_id) is link:
            del self._links[cluster_id]
