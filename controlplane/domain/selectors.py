"""Choosing clusters by what they are: tags, project, distribution, groups."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from controlplane.domain.access import DEFAULT_PROJECT
from controlplane.domain.clustergroups import ClusterGroup
from controlplane.domain.clusters import AgentMode, Cluster, Distribution
from controlplane.domain.names import check_text
from fleet.errors import Invalid

_MOST_TAGS = 64
_MOST_NAMES = 1000


@dataclass(frozen=True, slots=True)
class Selector:
    """All conditions that are given must hold; without any, every cluster fits.

    `groups` are ids of cluster groups, of which one is enough; `excluded` are ids of clusters
    that never fit.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    distribution: Distribution | None = None
    project_id: str | None = None
    groups: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def checked(self) -> "Selector":
        """The same. Invalid: more or longer than fits."""
        if len(self.tags) > _MOST_TAGS:
            raise Invalid(f"{len(self.tags)} tags, {_MOST_TAGS} at most", field="tags")
        for name, value in self.tags.items():
            check_text(name, "tags.name", 63)
            check_text(value, "tags.value")
        for names, where in ((self.groups, "groups"), (self.excluded, "ignoreClusters")):
            if len(names) > _MOST_NAMES:
                raise Invalid(f"{len(names)} entries, {_MOST_NAMES} at most", field=where)
        return replace(self, tags=dict(self.tags))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The clusters at one moment, with the groups they are in."""

    clusters: tuple[Cluster, ...] = ()
    groups: tuple[ClusterGroup, ...] = ()

    def matching(self, selector: Selector, project_id: str | None) -> list[Cluster]:
        """Clusters that fit, by handle; with a `project_id` only its own, whatever is asked for.

        Invalid: a group is gone, which is not to be taken for one without clusters.
        """
        groups = self._named(selector.groups)
        found = [
            one
            for one in self.clusters
            if one.ending_at is None
            and one.mode is AgentMode.MANAGED
            and in_project(one, project_id)
            and _fits(one, selector)
            and (not selector.groups or any(group.holds(one) for group in groups))
        ]
        return sorted(found, key=lambda one: one.handle)

    def frozen(self) -> dict[str, ClusterGroup]:
        """Clusters that must stay as they are, by id, with the group that says so."""
        groups = [one for one in self.groups if one.frozen]
        found = [(c.id, g) for c in self.clusters for g in groups if g.holds(c)]
        return dict(found)

    def _named(self, ids: Collection[str]) -> list[ClusterGroup]:
        known = {one.id: one for one in self.groups}
        if gone := [one for one in ids if one not in known]:
            raise Invalid(f"there is no cluster group {gone[0]}: name another one", field="groups")
        return [known[one] for one in ids]


def in_project(cluster: Cluster, project_id: str | None) -> bool:
    """Whether a cluster is of a project; None stands for all projects."""
    return project_id is None or (cluster.project_id or DEFAULT_PROJECT) == project_id


def _fits(cluster: Cluster, selector: Selector) -> bool:
    return (
        cluster.id not in selector.excluded
        and in_project(cluster, selector.project_id)
        and selector.distribution in (None, cluster.distribution)
        and selector.tags.items() <= cluster.tags.items()
    )
