"""Groups of clusters: named one by one, or by tags; a group can be frozen as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.domain.access import DEFAULT_PROJECT, Kind, Target
from controlplane.domain.clusters import Cluster
from fleet.errors import Conflict

MOST_CHANGING = 10_000


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """Clusters that belong together: each of `cluster_ids`, and all that have all of `tags`.

    Without tags it holds only those named. Of a project it holds only that project's clusters.
    While it is frozen nothing of its clusters' services changes; `reason` says why. Pipelines
    change at most `max_changing` of its clusters at once, whichever they are; 0: any number.
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
    def target(self) -> Target:
        """Where it stands: rights on it are rights on clusters there."""
        if self.project_id is None:
            return Target.whole(Kind.CLUSTER, self.id, self.name)
        return Target.within(Kind.CLUSTER, self.project_id, self.id, self.name)

    def holds(self, cluster: Cluster) -> bool:
        """Whether a cluster is in it."""
        if self.project_id not in (None, cluster.project_id or DEFAULT_PROJECT):
            return False
        by_tags = bool(self.tags) and self.tags.items() <= cluster.tags.items()
        return by_tags or cluster.id in self.cluster_ids

    def refusal(self, cluster: Cluster) -> Conflict:
        """What is said to who would change something there."""
        why = f": {self.reason}" if self.reason else ""
        return Conflict(
            f"cluster {cluster.handle!r} is frozen, as cluster group {self.name!r} is, by "
            f"{self.frozen_by}{why}; unfreeze the group first"
        )
