"""A cluster source: its settings, and the result of its last reconciliation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.parts import NamedRow, part

MAX_CLUSTERS = 1_000
"""Default of the maximum number of clusters of one source."""


class InventoryKind(StrEnum):
    """Kind of objects that describe clusters."""

    CLUSTER_API = "cluster-api"
    """`Cluster` of Cluster API. Its clusters get an agent, and join by themselves."""
    CLUSTER_PROFILE = "cluster-profile"
    """`ClusterProfile` of the Multicluster SIG. Somebody installs the agents of its clusters."""


class GonePolicy(StrEnum):
    """Reaction to a deleted object."""

    KEEP = "keep"
    """The cluster stays registered, and the source shows it as gone."""
    DELETE = "delete"
    """The cluster is removed from Towline. Its objects stay."""


class ClusterSourceResult(StrEnum):
    """Result of the last reconciliation."""

    UNKNOWN = "unknown"
    """Not reconciled yet."""
    SYNCED = "synced"
    """All selected objects have their cluster."""
    INCOMPLETE = "incomplete"
    """Some objects have no cluster, or no agent; the message and the objects tell the reason."""
    FAILED = "failed"
    """The objects could not be read; nothing was changed."""


@dataclass(frozen=True, slots=True)
class ClusterSourceSettings:
    """The objects that a source selects, and the clusters that it registers."""

    cluster_id: str = ""
    """ID of the management cluster. Required on creation."""
    service_account_id: str = ""
    """ID of the service account that reads the objects and registers the clusters. Required on
    creation."""
    inventory: InventoryKind = InventoryKind.CLUSTER_API
    """Kind of the objects. Default: `CLUSTER_API`."""
    namespace: str = ""
    """Namespace of the objects. Without it: all namespaces."""
    selector: str = ""
    """Label selector of the objects, as in kubectl. Without it: all objects. Limit: 10
    conditions."""
    name_template: str = "{name}"
    """Name of each cluster, from the `{name}` and `{namespace}` of its object. Default: `{name}`.
    Limit: 200 characters."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of all clusters. Limit: 64."""
    tag_labels: tuple[str, ...] = ()
    """Labels of the object that become tags. A tag has the name of its label after the slash.
    Limit: 64."""
    gone: GonePolicy = GonePolicy.KEEP
    """Reaction to a deleted object. Default: `KEEP`."""
    max_clusters: int = MAX_CLUSTERS
    """Maximum number of clusters. Default: 1,000. Limit: 5,000."""
    max_deletions: int = 5
    """Maximum number of clusters that one reconciliation deletes. If more objects are gone, it
    deletes none. Default: 5. Limit: 5,000."""
    interval_s: int = 60
    """Seconds between two reconciliations. Default: 60. Limits: 10 to 86,400."""
    suspended: bool = False
    """True: the source registers and changes nothing. Default: false."""


@dataclass(frozen=True, slots=True)
class ClusterSourceStatus:
    """The result of the last reconciliation."""

    result: ClusterSourceResult = ClusterSourceResult.UNKNOWN
    """Result of the last reconciliation."""
    message: str = ""
    """Explanation of the result."""
    checked_at: datetime | None = None
    """Time of the last reconciliation."""


@dataclass(frozen=True, slots=True)
class ClusterSource(NamedRow):
    """Objects in a management cluster whose clusters are registered."""

    project_id: str = DEFAULT_PROJECT
    """ID of the project of the source and of its clusters."""
    settings: ClusterSourceSettings = part(ClusterSourceSettings)
    status: ClusterSourceStatus = part(ClusterSourceStatus)

    @property
    def target(self) -> Resource:
        """Returns the location of the clusters that the source registers."""
        return Resource.within(ResourceKind.CLUSTER, self.project_id)
