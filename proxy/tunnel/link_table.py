"""The agent links that this process holds, each with the epoch of its claim."""

import structlog

from core.identity import ClusterId
from core.mux.mux import Mux

log = structlog.get_logger(__name__)


class LinkTable:
    """One link for new requests to each cluster; the highest epoch wins."""

    def __init__(self) -> None:
        self._links: dict[ClusterId, tuple[int, Mux]] = {}

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """Returns the link for new requests to a cluster."""
        entry = self._links.get(cluster_id)
        return entry[1] if entry is not None else None

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link if it was claimed with this epoch."""
        entry = self._links.get(cluster_id)
        return entry[1] if entry is not None and entry[0] == epoch else None

    @property
    def links(self) -> list[Mux]:
        return [link for _, link in self._links.values()]

    @property
    def epochs(self) -> dict[ClusterId, int]:
        """The clusters whose links are held here, with their epochs."""
        return {cluster_id: epoch for cluster_id, (epoch, _) in self._links.items()}

    def add(self, cluster_id: ClusterId, link: Mux, epoch: int) -> None:
        """Adds a claimed link. Of two links, the one with the lower epoch is closed."""
        old_epoch, old_link = self._links.get(cluster_id, (0, None))
        if old_link is None or epoch > old_epoch:
            self._links[cluster_id] = (epoch, link)
        if old_link is not None:
            winner, loser = (link, old_link) if epoch > old_epoch else (old_link, link)
            _close_old_link(cluster_id, loser, instance_of(winner))

    def supersede(self, cluster_id: ClusterId, epoch: int, instance: str) -> None:
        """Replaces a link that was claimed elsewhere with this epoch; `instance` (hex): its agent's
        process.
        """
        old_epoch, old_link = self._links.get(cluster_id, (0, None))
        if old_link is not None and old_epoch < epoch:
            del self._links[cluster_id]
            _close_old_link(cluster_id, old_link, instance)

    def remove(self, cluster_id: ClusterId, link: Mux) -> None:
        """Removes a link that has ended."""
        if self.find(cluster_id) is link:
            del self._links[cluster_id]


def instance_of(link: Mux) -> str:
    """Returns the instance (hex) of the agent's process at the other end of a ready link."""
    return link.peer.instance.hex() if link.peer is not None else ""


def _close_old_link(cluster_id: ClusterId, link: Mux, new_instance: str) -> None:
    """Drains the old link if it belongs to the same process of the agent, otherwise closes it."""
    if instance_of(link) == new_instance:
        link.drain(0, "replaced by a newer connection")
    else:
        log.warning("another agent took over", cluster=cluster_id)
        link.close("another agent connected for this cluster")
