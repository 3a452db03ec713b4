"""The objects of a cluster source, each with its cluster and the state of its registration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.cluster_sources.model.inventory import ClusterProperty, InventoryObject
from controlplane.cluster_sources.model.source import InventoryKind
from controlplane.clusters.model.cluster import Cluster


class MemberState(StrEnum):
    """State of an object of a cluster source."""

    REFUSED = "refused"
    """No cluster was registered; the message tells the reason."""
    PROVISIONING = "provisioning"
    """The cluster is registered, and its control plane is not initialized yet."""
    JOINING = "joining"
    """The agent's manifests are delivered, and the cluster waits for its agent."""
    AWAITING_AGENT = "awaiting-agent"
    """The cluster waits for an agent that somebody installs."""
    CONNECTED = "connected"
    """The agent of the cluster has connected."""
    REMOVED = "removed"
    """A user has deleted the cluster. The source does not register it again."""
    GONE = "gone"
    """The object was deleted, and the cluster stays registered."""


@dataclass(frozen=True, slots=True)
class ClusterSourceMember:
    """An object of a cluster source."""

    id: str
    source_id: str
    uid: str
    """UID of the object."""
    namespace: str
    """Namespace of the object."""
    name: str
    """Name of the object."""
    inserted_at: datetime
    updated_at: datetime
    state: MemberState
    """State of the registration."""
    message: str = ""
    """Reason for which the cluster was not registered, or cannot join. Empty if there is none."""
    cluster_id: str | None = None
    """ID of the registered cluster. None: none was registered."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that the source has set."""
    version: str = ""
    """Kubernetes version that the object tells. Empty: none."""
    properties: tuple[ClusterProperty, ...] = ()
    """Properties in the status of the object. Limit: 64."""
    token_id: str | None = None
    """ID of the bootstrap token that was delivered. None: none, or the agent has connected."""
    gone_at: datetime | None = None
    """Time at which the object was found missing. None: it exists."""

    @property
    def title(self) -> str:
        """Returns namespace and name for messages."""
        return f"{self.namespace}/{self.name}"


def state_of(kind: InventoryKind, item: InventoryObject, cluster: Cluster | None) -> MemberState:
    """Returns the state of a registered cluster whose object exists; None: it was deleted."""
    if cluster is None or cluster.ending_at is not None:
        return MemberState.REMOVED
    if cluster.pinged_at is not None:
        return MemberState.CONNECTED
    if kind is InventoryKind.CLUSTER_PROFILE:
        return MemberState.AWAITING_AGENT
    return MemberState.JOINING if item.is_ready else MemberState.PROVISIONING
