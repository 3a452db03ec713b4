"""Clusters, their agents and their health."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from controlplane.authorization import Resource, ResourceKind
from core.identity import ClusterId
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
    """A registered cluster.

    `pinged_at` is when its agent was last seen: liveness is an age, not a flag. `acknowledged` is
    the last committed report of its agent. A cluster with `ending_at` is deleted once its agent has
    removed all services. Without a `project_id` the cluster belongs to the default project. Secrets
    for its agent are encrypted to `sealing_key`. `alarm` describes a problem with its agents.
    """

    id: ClusterId
    handle: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protect: bool = False
    version: str | None = None
    kubernetes_version: str | None = None
    distribution: Distribution | None = None
    nodes: int | None = None
    agent_version: str | None = None
    agent_instance: str | None = None
    pinged_at: datetime | None = None
    acknowledged: int = 0
    ending_at: datetime | None = None
    deleted_at: datetime | None = None
    mode: AgentMode = AgentMode.MANAGED
    facts: ClusterFacts = ClusterFacts()
    sealing_key: bytes | None = None
    alarm: str = ""
    project_id: str | None = None

    @property
    def skips_agent_upgrades(self) -> bool:
        """Returns whether bulk upgrades of agents skip this cluster."""
        return self.tags.get(AGENT_TAG) == KEEP

    @property
    def target(self) -> Resource:
        """Returns the cluster's location for authorization."""
        return Resource.within(ResourceKind.CLUSTER, self.project_id, self.id, self.handle)
