"""Clusters: registered by people, kept alive by their agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from fleet.identity import ClusterId


class Distribution(StrEnum):
    """Flavours of Kubernetes, as the API names them."""

    GENERIC = "GENERIC"
    EKS = "EKS"
    AKS = "AKS"
    GKE = "GKE"
    RKE = "RKE"
    K3S = "K3S"
    OPENSHIFT = "OPENSHIFT"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as the control plane knows it.

    `pinged_at` is the last time its agent was heard of: liveness is an age, not a flag.
    `acknowledged` is the last report of its agent that is committed. A cluster with
    `ending_at` waits for its agent to remove all services; then it is deleted.
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
