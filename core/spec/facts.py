"""Facts about a cluster."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DeprecatedApi:
    """A deprecated API that clients of the cluster still use."""

    group: str
    """API group. Empty for the core group."""
    version: str
    """API version."""
    resource: str
    """Resource, such as `ingresses`."""
    removed_in: str
    """Kubernetes release without this API, such as `1.25`."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts that the agent reads from its cluster; a number is 0 if it is unknown."""

    kubernetes_version: str = ""
    distribution: str = ""
    """Kubernetes distribution; empty if it is unknown."""
    nodes: int = 0
    cpu_millis: int = 0
    """Allocatable CPU in millicores."""
    memory_bytes: int = 0
    """Allocatable memory in bytes."""
    pod_capacity: int = 0
    """Maximum number of pods."""
    api_versions: tuple[str, ...] = ()
    """API versions that the cluster serves, such as `apps/v1` or `v1`, then their kinds, such as
    `apps/v1/Deployment`: the capabilities of a Helm release."""
    deprecated: tuple[DeprecatedApi, ...] = ()
    """Deprecated APIs in use."""
    token_expires_at: datetime | None = None
    """End of the token that the agent's kubeconfig contains. None if there is none, or it has no
    end."""
