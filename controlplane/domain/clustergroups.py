"""Cluster groups: clusters selected by name or tags. A whole group can be frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.domain.access import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.domain.clusters import Cluster
from core.errors import Conflict

MAX_CHANGING_CLUSTERS = 10_000


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A group of clusters: all of `cluster_ids`, and all clusters that have all of `tags`.

    Without tags it contains only the named clusters. A group of a project contains only that
    project's clusters. While a group is frozen, services on its clusters do not change; `reason`
    says why. Pipelines change at most `max_changing` of its clusters at the same time, counted over
    all pipelines; 0 means no limit.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    project_id: str | None = None
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    cluster_ids: tuple[str, ...] = ()
    frozen: bool = False
    reason: str = ""
    frozen_by: str = ""
    frozen_at: datetime | None = None
    max_changing: int = 0

    @property
    def target(self) -> Resource:
        """Returns the group's location for authorization; permissions on it apply to clusters
        there.
        """
        if self.project_id is None:
            return Resource.whole(ResourceKind.CLUSTER, self.id, self.name)
        return Resource.within(ResourceKind.CLUSTER, self.project_id, self.id, self.name)

    def holds(self, cluster: Cluster) -> bool:
        """Returns whether the group contains a cluster."""
        if self.project_id not in (None, cluster.project_id or DEFAULT_PROJECT):
            return False
        by_tags = bool(self.tags) and self.tags.items() <= cluster.tags.items()
        return by_tags or cluster.id in self.cluster_ids

    def refusal(self, cluster: Cluster) -> Conflict:
        """Returns the error for a change to a frozen cluster."""
        why = f": {self.reason}" if self.reason else ""
        return Conflict(
            f"cluster {cluster.handle!r} is frozen through cluster group {self.name!r} by "
            f"{self.frozen_by}{why}; unfreeze the group first"
        )
