"""Authorization: verbs, resource kinds, roles, and the policy of an actor.

Denies by default. Only this package makes authorization decisions; it knows no store, token or
transport.
"""

from controlplane.domain.access.actor import (
    ANONYMOUS,
    SYSTEM,
    Actor,
    ActorKind,
    require,
    require_member,
)
from controlplane.domain.access.policy import NO_PERMISSIONS, Grant, Limit, Policy, Visible
from controlplane.domain.access.roles import (
    ADMIN,
    BUILT_IN,
    EDITOR,
    VIEWER,
    KubernetesRights,
    KubernetesRule,
    Role,
    Rule,
)
from controlplane.domain.access.targets import (
    DEFAULT_PROJECT,
    INSTALLATION,
    Resource,
    ResourceKind,
    Scope,
    Verb,
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
    "VIEWER",
    "Actor",
    "ActorKind",
    "Grant",
    "ResourceKind",
    "KubernetesRights",
    "KubernetesRule",
    "Limit",
    "Policy",
    "Role",
    "Rule",
    "Scope",
    "Resource",
    "Verb",
    "Visible",
    "require",
    "require_member",
]
