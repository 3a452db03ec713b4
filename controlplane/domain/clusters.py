"""Clusters: registered by people, kept alive by their agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from controlplane.domain.access import Kind, Target
from fleet.identity import ClusterId


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


@dataclass(frozen=True, slots=True)
class DeprecatedApi:
    """An API that is still asked for; the Kubernetes release `removed_in` (1.25) is without it."""

    group: str
    version: str
    resource: str
    removed_in: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What its agent tells of a cluster; a number is 0 if it cannot be counted.

    `api_versions` are `group/version`, `v1` for the core.
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    pod_capacity: int = 0
    api_versions: tuple[str, ...] = ()
    deprecated: tuple[DeprecatedApi, ...] = ()


SILENT_AFTER = timedelta(minutes=5)
"""A cluster that was not heard of for so long counts as silent, what is known of it as old."""


class ClusterHealth(StrEnum):
    """Connection state of a cluster's agent."""

    CONNECTED = "CONNECTED"
    """The agent reported within the last 5 minutes."""
    SILENT = "SILENT"
    """The last report of the agent is older than 5 minutes."""
    NEVER = "NEVER"
    """No agent has ever connected."""


AGENT_TAG, KEEP = "towline-agent", "keep"
"""A tag, and its value for `keeps_agent`."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as the control plane knows it.

    `pinged_at` is the last time its agent was heard of: liveness is an age, not a flag.
    `acknowledged` is the last report of its agent that is committed. A cluster with
    `ending_at` waits for its agent to remove all services; then it is deleted. Without a
    `project_id` it belongs to the default project. `sealing_key` is what secrets for its agent
    are sealed to, `alarm` says what is wrong with its agents.
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
    def keeps_agent(self) -> bool:
        """Whether it is left out when the agents of many clusters are replaced."""
        return self.tags.get(AGENT_TAG) == KEEP

    @property
    def target(self) -> Target:
        """Where the cluster stands."""
        return Target.within(Kind.CLUSTER, self.project_id, self.id, self.handle)
