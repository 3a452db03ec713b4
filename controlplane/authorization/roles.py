"""Roles: named sets of permissions, and their meaning inside clusters."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from controlplane.authorization.resources import ResourceKind, Verb
from core.errors import Invalid

Right = tuple[Verb, ResourceKind]
ANY = "*"
MAX_RULES = 50
_MAX_NAME_LENGTH = 253
_MAX_KUBERNETES_NAMES = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """Every one of the verbs on every one of the kinds."""

    verbs: tuple[Verb, ...] = ()
    """Operations. An empty list means all."""
    kinds: tuple[ResourceKind, ...] = ()
    """Kinds of resources. An empty list means all."""

    @property
    def rights(self) -> frozenset[Right]:
        """Returns the (verb, kind) pairs of the rule."""
        return _rights(tuple(self.verbs), tuple(self.kinds))

    def without_duplicates(self) -> "Rule":
        """Returns the rule with each verb and kind once."""
        return Rule(tuple(dict.fromkeys(self.verbs)), tuple(dict.fromkeys(self.kinds)))


@lru_cache(1024)
def _rights(verbs: tuple[Verb, ...], kinds: tuple[ResourceKind, ...]) -> frozenset[Right]:
    return frozenset((v, k) for v in verbs or Verb for k in kinds or ResourceKind)


@dataclass(frozen=True, slots=True)
class KubernetesRequest:
    """Attributes of a request to a cluster, as the API server's own authorization sees them.

    `describes` marks API discovery and requests about the caller itself, which every client needs.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    describes: bool = False


@dataclass(frozen=True, slots=True)
class KubernetesRule:
    """Matches requests in every field; an empty field matches all, and patterns may contain `*`."""

    verbs: tuple[str, ...] = ()
    """Kubernetes verbs, such as `get` or `create`."""
    groups: tuple[str, ...] = ()
    """API groups, such as `apps`."""
    resources: tuple[str, ...] = ()
    """Resources, such as `deployments` or `pods/exec`."""
    namespaces: tuple[str, ...] = ()
    """Namespaces."""
    names: tuple[str, ...] = ()
    """Object names."""

    def matches(self, request: KubernetesRequest) -> bool:
        """Returns whether the rule permits the request."""
        return (
            _fits(request.verb, self.verbs)
            and _fits(request.group, self.groups)
            and _fits(request.resource, self.resources)
            and _fits(request.namespace, self.namespaces)
            and _fits(request.name, self.names)
        )


@dataclass(frozen=True, slots=True)
class KubernetesRights:
    """Identity and limits of a role's holders in clusters; they also need permission to connect.

    Requests that describe the API are always permitted.
    """

    groups: tuple[str, ...] = ()
    """Kubernetes groups that the Kubernetes proxy impersonates. `system:` groups are rejected."""
    rules: tuple[KubernetesRule, ...] = ()
    """Requests that the Kubernetes proxy forwards. An empty list forwards all."""
    impersonate: tuple[str, ...] = ()
    """Patterns of users and groups that holders may impersonate, such as `user:*@example.org` or
    `group:team-*`."""
    record: bool = False
    """True if the output of terminal sessions is recorded."""
    record_input: bool = False
    """True if the input of terminal sessions is recorded, too. Requires `record`."""

    def allows(self, request: KubernetesRequest | None) -> bool:
        """Returns whether a request is permitted; None asks about access to the cluster as such."""
        if request is None or request.describes or not self.rules:
            return True
        return any(rule.matches(request) for rule in self.rules)

    def covers(self, other: "KubernetesRights") -> bool:
        """Returns whether these rights include the others.

        Holders who may impersonate everybody can already appear in any group.
        """
        return (
            (ANY in self.impersonate or self._has_identities(other))
            and (not self.rules or (bool(other.rules) and set(other.rules) <= set(self.rules)))
            and (other.record or not self.record)
            and (other.record_input or not self.record_input)
        )

    def _has_identities(self, other: "KubernetesRights") -> bool:
        return set(other.groups) <= set(self.groups) and set(other.impersonate) <= set(
            self.impersonate
        )


@dataclass(frozen=True, slots=True)
class Role:
    """A named set of rules. Built-in roles are read-only."""

    id: str
    name: str
    """Unique name."""
    inserted_at: datetime | None = None
    updated_at: datetime | None = None
    description: str | None = None
    """Free text."""
    rules: tuple[Rule, ...] = ()
    """Permissions in the control plane."""
    kubernetes: KubernetesRights = field(default_factory=KubernetesRights)
    """Permissions in clusters."""

    @property
    def rights(self) -> frozenset[Right]:
        """Returns all permissions of the role."""
        return frozenset().union(*(rule.rights for rule in self.rules))

    @property
    def built_in(self) -> bool:
        """Returns whether the role is built in."""
        return self.id in BUILT_IN


class BuiltInRole(StrEnum):
    """The built-in roles, weakest first."""

    VIEWER = "viewer"
    """Reads everything in its scope except audit rows."""
    EDITOR = "editor"
    """Reads and changes everything in its scope except access rights."""
    ADMIN = "admin"
    """Has every permission in its scope, access rights included."""


_RESOURCES = (
    ResourceKind.PROJECT,
    ResourceKind.CLUSTER,
    ResourceKind.SERVICE,
    ResourceKind.PIPELINE,
    ResourceKind.REPOSITORY,
    ResourceKind.SECRET,
    ResourceKind.CONTEXT,
    ResourceKind.NOTIFICATION,
    ResourceKind.CONFIGURATION_SOURCE,
)
_VIEWER_KUBERNETES = KubernetesRights(("towline:viewers",))
_EDITOR_KUBERNETES = KubernetesRights(("towline:editors",))

VIEWER = Role(
    "viewer",
    "viewer",
    description="Read everything except the audit log, and connect to clusters.",
    rules=(Rule((Verb.READ,), _RESOURCES), Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,))),
    kubernetes=_VIEWER_KUBERNETES,
)
EDITOR = Role(
    "editor",
    "editor",
    description="All of VIEWER, plus changes and gate approvals.",
    rules=(
        Rule(
            (Verb.READ, Verb.WRITE), tuple(k for k in _RESOURCES if k is not ResourceKind.PROJECT)
        ),
        Rule((Verb.READ,), (ResourceKind.PROJECT,)),
        Rule((Verb.USE,), (ResourceKind.SECRET,)),
        Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),
        Rule((Verb.APPROVE, Verb.PAUSE, Verb.RESUME), (ResourceKind.PIPELINE,)),
        Rule((Verb.APPROVE,), (ResourceKind.CONFIGURATION_SOURCE,)),
    ),
    kubernetes=_EDITOR_KUBERNETES,
)
ADMIN = Role(
    "admin",
    "admin",
    description="Everything, including granting access and reading the audit log.",
    rules=(Rule(),),
    kubernetes=KubernetesRights(("towline:admins",), impersonate=(ANY,)),
)
BUILT_IN = {role.id: role for role in (VIEWER, EDITOR, ADMIN)}


def weakest_with(right: Right) -> Role:
    """Returns the weakest built-in role that has a permission."""
    return next(role for role in (VIEWER, EDITOR, ADMIN) if right in role.rights)


def check_kubernetes(rights: KubernetesRights) -> KubernetesRights:
    """Raises Invalid for a system group of Kubernetes, values beyond the limits, or recorded input
    without output.
    """
    for group in rights.groups:
        if group.startswith("system:"):
            raise Invalid(f"{group[:80]} belongs to Kubernetes itself", field="kubernetes.groups")
    if rights.record_input and not rights.record:
        raise Invalid(
            "recordInput requires record: input is recorded only together with output",
            field="kubernetes.record",
        )
    rules = [(r.verbs, r.groups, r.resources, r.namespaces, r.names) for r in rights.rules]
    words: Iterable[str] = (word for rule in rules for part in rule for word in part)
    names = [*rights.groups, *rights.impersonate, *words]
    # A rule without names allows everything, and counts as well.
    is_too_long = max(len(names), len(rules)) > _MAX_KUBERNETES_NAMES
    if is_too_long or any(not 0 < len(name) <= _MAX_NAME_LENGTH for name in names):
        raise Invalid(
            f"names must have 1 to {_MAX_NAME_LENGTH} characters, at most {_MAX_KUBERNETES_NAMES} "
            "names and as many rules",
            field="kubernetes",
        )
    return rights


def _fits(value: str, patterns: Collection[str]) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)
