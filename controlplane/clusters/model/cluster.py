"""Clusters, their agents and their health."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.spec.facts import ClusterFacts


class Distribution(StrEnum):
    """Kubernetes distributions, as the API names them."""

    GENERIC = "GENERIC"
    """Any other distribution."""
    EKS = "EKS"
    """Amazon Elastic Kubernetes Service."""
    AKS = "AKS"
    """Azure Kubernetes Service."""
    GKE = "GKE"
    """Google Kubernetes Engine."""
    RKE = "RKE"
    """Rancher Kubernetes Engine."""
    K3S = "K3S"
    """K3s."""
    OPENSHIFT = "OPENSHIFT"
    """Red Hat OpenShift."""


class AgentMode(StrEnum):
    """Source of a cluster's service definitions: the control plane, or the cluster itself."""

    MANAGED = "MANAGED"
    """The control plane defines the services."""
    AUTONOMOUS = "AUTONOMOUS"
    """Objects in the cluster define the services. The control plane only displays them."""


SILENT_AFTER = timedelta(minutes=5)
"""Age of the last report after which a cluster counts as silent and its data as outdated."""


class ClusterHealth(StrEnum):
    """Connection state of a cluster's agent."""

    CONNECTED = "CONNECTED"
    """The agent reported within the last 5 minutes."""
    SILENT = "SILENT"
    """The last report of the agent is older than 5 minutes."""
    NEVER = "NEVER"
    """No agent has ever connected."""


AGENT_TAG, KEEP = "towline-agent", "keep"
"""A tag, and its value for `skips_agent_upgrades`."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A registered Kubernetes cluster."""

    id: ClusterId
    handle: str
    """Unique short name, used in URLs and commands."""
    name: str
    """Display name."""
    inserted_at: datetime
    updated_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags, used by selectors."""
    metadata: JsonMapping = field(default_factory=dict)
    """Free-form metadata of the user."""
    protect: bool = False
    """True if the cluster cannot be deleted."""
    version: str | None = None
    """Kubernetes version that the registrant expects."""
    kubernetes_version: str | None = None
    """Kubernetes version that the agent reports."""
    distribution: Distribution | None = None
    """Kubernetes distribution that the agent reports."""
    nodes: int | None = None
    """Number of nodes."""
    agent_version: str | None = None
    """Version of the agent."""
    agent_instance: str | None = None
    """ID of the running agent process."""
    pinged_at: datetime | None = None
    """Time of the last report of the agent. None if it has never connected. Older than 5 minutes
    means offline."""
    acknowledged: int = 0
    """Number of the agent's last committed report."""
    ending_at: datetime | None = None
    """Start of the deletion. The cluster is deleted once its agent has removed all services."""
    deleted_at: datetime | None = None
    mode: AgentMode = AgentMode.MANAGED
    """Source of the cluster's service definitions."""
    facts: ClusterFacts = ClusterFacts()
    """Capacity and API versions."""
    agent_token_expires_at: datetime | None = None
    """End of the agent's token for the Kubernetes API. None if Kubernetes or a plugin renews it, or
    it has no end."""
    sealing_key: bytes | None = None
    """Public key to which secrets for the agent are encrypted."""
    alarm: str = ""
    """Problem with the agent, such as two agents with the same token. Empty if there is none."""
    project_id: str = DEFAULT_PROJECT
    """ID of the project."""
    project_given: bool = False
    """True if a user named the project, even the default one."""
    kubernetes_uid: str = ""
    """UID of the namespace kube-system, from joining with a bootstrap token. Empty: registered by a
    user."""
    bootstrap_token_id: str | None = None
    """ID of the bootstrap token with which the cluster joined. None: registered by a user."""

    @property
    def skips_agent_upgrades(self) -> bool:
        """Returns whether bulk upgrades of agents skip this cluster."""
        return self.tags.get(AGENT_TAG) == KEEP

    def is_silent(self, now: datetime) -> bool:
        """Returns whether the agent was last seen longer ago than the limit, or never."""
        return self.pinged_at is None or now - self.pinged_at > SILENT_AFTER

    @property
    def target(self) -> Resource:
        """Returns the cluster's location for authorization."""
        return Resource.within(ResourceKind.CLUSTER, self.project_id, self.id, self.handle)
