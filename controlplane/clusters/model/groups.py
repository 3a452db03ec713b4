"""Cluster groups: clusters selected by name or tags. A whole group can be frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.authorization import Resource, ResourceKind
from controlplane.clusters.model.cluster import Cluster
from controlplane.platform.parts import NamedRow
from core.errors import Conflict

MAX_CHANGING_CLUSTERS = 10_000


@dataclass(frozen=True, slots=True)
class ClusterFreeze:
    """Freeze of a cluster through its cluster group, as users of the cluster see it.

    It has no end of its own: it lasts until a user unfreezes the group.
    """

    by: str
    """E-mail address of the user who froze the cluster group."""
    since: datetime | None = None
    """Start of the freeze."""
    reason: str = ""
    """Reason of the freeze."""
    group: str = ""
    """Name of the cluster group. Empty for callers who may not read it."""


@dataclass(frozen=True, slots=True)
class ClusterGroup(NamedRow):
    """A set of clusters: the listed ones, and all clusters with every given tag.

    A group of a project contains only that project's clusters.
    """

    project_id: str | None = None
    """ID of the project. None: a group of the installation."""
    description: str = ""
    """Free text."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that select clusters. A cluster must have all of them."""
    cluster_ids: tuple[str, ...] = ()
    """IDs of clusters that belong to the group regardless of tags."""
    frozen: bool = False
    """True while a freeze blocks all changes to services in the group."""
    reason: str = ""
    """Reason of the freeze."""
    frozen_by: str = ""
    """E-mail address of the user who froze the group."""
    frozen_at: datetime | None = None
    """Start of the freeze."""
    max_changing: int = 0
    """Maximum number of clusters that pipelines change at the same time. 0 means no limit."""

    @property
    def target(self) -> Resource:
        """Returns the group's location for authorization; permissions on it apply to clusters
        there.
        """
        return Resource.of_project(ResourceKind.CLUSTER, self.project_id, self.id, self.name)

    def contains(self, cluster: Cluster) -> bool:
        """Returns whether the group contains a cluster."""
        if self.project_id not in (None, cluster.project_id):
            return False
        by_tags = bool(self.tags) and self.tags.items() <= cluster.tags.items()
        return by_tags or cluster.id in self.cluster_ids

    def freeze(self, *, is_named: bool) -> ClusterFreeze:
        """Returns the freeze for users of the group's clusters; `is_named`: with the group."""
        name = self.name if is_named else ""
        return ClusterFreeze(self.frozen_by, self.frozen_at, self.reason, name)

    def refusal(self, cluster: Cluster) -> Conflict:
        """Returns the error for a change to a frozen cluster."""
        reason = f": {self.reason}" if self.reason else ""
        return Conflict(
            f"cluster {cluster.handle!r} is frozen through cluster group {self.name!r} by "
            f"{self.frozen_by}{reason}; unfreeze the group first"
        )
