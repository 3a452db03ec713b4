"""Cluster selectors: tags, project, distribution and groups."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from controlplane.authorization import UNRESTRICTED, Fence, FenceCluster
from controlplane.clusters.model.cluster import AgentMode, Cluster, Distribution
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.labels import MAX_REQUIREMENTS, LabelRequirement
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from core.errors import Invalid

_MAX_TAGS = 64
_MAX_NAMES = 1000


@dataclass(frozen=True, slots=True)
class Selector:
    """All given conditions must match; without any, every cluster matches."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Required tags. Limit: 64."""
    distribution: Distribution | None = None
    """Required distribution."""
    project_id: str | None = None
    """ID of the required project."""
    groups: tuple[str, ...] = ()
    """IDs of cluster groups. One of them is enough. Limit: 1,000."""
    excluded: tuple[str, ...] = ()
    """IDs of clusters that never match. Limit: 1,000."""
    match_expressions: tuple[LabelRequirement, ...] = ()
    """Conditions on tags, as in Kubernetes. All are required. Limit: 10."""

    def checked(self) -> "Selector":
        """Returns itself. Raises Invalid for too many or too long entries."""
        check_count(len(self.tags), "tags", _MAX_TAGS)
        for name, value in self.tags.items():
            check_text(name, "tags.name", 63)
            check_text(value, "tags.value")
        for names, path in ((self.groups, "groups"), (self.excluded, "ignoreClusters")):
            check_count(len(names), path, _MAX_NAMES)
        check_count(len(self.match_expressions), "matchExpressions", MAX_REQUIREMENTS)
        for requirement in self.match_expressions:
            requirement.check("matchExpressions")
        return replace(self, tags=dict(self.tags))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The clusters at one moment, with their groups."""

    clusters: tuple[Cluster, ...] = ()
    groups: tuple[ClusterGroup, ...] = ()
    fence: Fence = UNRESTRICTED
    """Fence of the project that selects: the clusters that it names can match as well."""

    def matching(self, selector: Selector, project_id: str | None) -> list[Cluster]:
        """Returns matching clusters sorted by handle; with a `project_id` only clusters of that
        project.

        Raises Invalid if a group was deleted: a missing group must not count as an empty one.
        """
        groups = self._groups_by_ids(selector.groups)
        matching = [
            cluster
            for cluster in self.clusters
            if cluster.ending_at is None
            and cluster.mode is AgentMode.MANAGED
            and self._is_selectable(cluster, project_id)
            and _matches(cluster, selector, groups)
        ]
        return sorted(matching, key=lambda cluster: cluster.handle)

    def selects(self, cluster: Cluster, selector: Selector) -> bool:
        """Returns whether a cluster meets all conditions. Raises Invalid as `matching` does."""
        return _matches(cluster, selector, self._groups_by_ids(selector.groups))

    def _is_selectable(self, cluster: Cluster, project_id: str | None) -> bool:
        shared = self.fence.reaches(FenceCluster(cluster.handle, cluster.tags))
        return shared or in_project(cluster, project_id)

    def frozen(self) -> dict[str, ClusterGroup]:
        """Returns the frozen clusters by id, with the group that froze them."""
        groups = [group for group in self.groups if group.frozen]
        frozen = [(c.id, g) for c in self.clusters for g in groups if g.contains(c)]
        return dict(frozen)

    def _groups_by_ids(self, ids: Collection[str]) -> list[ClusterGroup]:
        groups = {group.id: group for group in self.groups}
        if missing := [id for id in ids if id not in groups]:
            raise Invalid(
                f"cluster group {missing[0]} does not exist: name another one", field="groups"
            )
        return [groups[id] for id in ids]


def in_project(cluster: Cluster, project_id: str | None) -> bool:
    """Returns whether a cluster belongs to a project; None means all projects."""
    return project_id is None or cluster.project_id == project_id


def _matches(cluster: Cluster, selector: Selector, groups: Collection[ClusterGroup]) -> bool:
    return (
        cluster.id not in selector.excluded
        and (not groups or any(group.contains(cluster) for group in groups))
        and in_project(cluster, selector.project_id)
        and selector.distribution in (None, cluster.distribution)
        and selector.tags.items() <= cluster.tags.items()
        and all(requirement.matches(cluster.tags) for requirement in selector.match_expressions)
    )
