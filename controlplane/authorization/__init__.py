"""Authorization: verbs, resource kinds, roles, and the policy of an actor.

Denies by default. Only this package makes authorization decisions; it knows no store, token or
transport.
"""

from controlplane.authorization.actor import (
    ANONYMOUS,
    SYSTEM,
    Actor,
    ActorKind,
    require,
    require_any,
    require_member,
    without_doubt,
)
from controlplane.authorization.fences import (
    UNRESTRICTED,
    DestinationRule,
    Fence,
    FenceCluster,
    FenceSource,
    ImageRule,
    SourceRule,
)
from controlplane.authorization.policy import NO_PERMISSIONS, Grant, Limit, Policy, Visible
from controlplane.authorization.resources import (
    DEFAULT_PROJECT,
    INSTALLATION,
    Resource,
    ResourceKind,
    Scope,
    Verb,
)
from controlplane.authorization.roles import (
    ADMIN,
    BUILT_IN,
    EDITOR,
    VIEWER,
    KubernetesRights,
    KubernetesRule,
    Role,
    Rule,
)

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "BUILT_IN",
    "DEFAULT_PROJECT",
    "EDITOR",
    "INSTALLATION",
    "NO_PERMISSIONS",
    "SYSTEM",
    "UNRESTRICTED",
    "VIEWER",
    "Actor",
    "ActorKind",
    "DestinationRule",
    "Fence",
    "FenceCluster",
    "FenceSource",
    "Grant",
    "ImageRule",
    "ResourceKind",
    "KubernetesRights",
    "KubernetesRule",
    "Limit",
    "Policy",
    "Role",
    "Rule",
    "Scope",
    "SourceRule",
    "Resource",
    "Verb",
    "Visible",
    "require",
    "require_any",
    "require_member",
    "without_doubt",
]
