"""Fences of projects: the objects that a tenant's service may write, and the identity that writes.

The control plane checks a fence when something is written, the renderers after each render, and
the agent for each object. The API server has the last word, because the agent acts as the service
account of the fence (Kubernetes documentation: Authenticating, User impersonation).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from core.errors import Invalid
from core.spec.image_signatures import ImageSignatureRule
from core.spec.objects import ObjectRef
from core.wildcards import matches

_ACCOUNT = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?:)?[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?"
)
MAX_NAMESPACES = 256
"""Maximum number of patterns of namespaces in `ObjectRules`, as in `core/wire/v1/agent.proto`."""
EXCLUDED = "!"
"""Prefix of a pattern that excludes what it matches."""
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:\.[a-z0-9]+(?:[-.][a-z0-9]+)*)?")


def check_service_account(account: str, field: str) -> str:
    """Returns the name of a service account, `name` or `namespace:name`. Invalid."""
    if not _ACCOUNT.fullmatch(account):
        raise Invalid(
            f"{account!r} is not the name of a service account: use NAME, for the account in the "
            "service's own namespace, or NAMESPACE:NAME",
            field=field,
        )
    return account


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """The objects that are allowed. A kind is `Kind` of the core group or `Kind.group`, and `*` is
    any text in either part: `*.apps` are all kinds of the group apps, `*` is every kind.
    """

    namespaces: tuple[str, ...] = ()
    """Namespaces, as patterns. The first that matches decides, and `!` before it excludes: an
    earlier destination of the fence belongs to another service account. Empty: none."""
    cluster_scoped: tuple[str, ...] = ()
    """Cluster-scoped kinds. Empty: none. A Namespace must also be one of `namespaces`."""
    denied: tuple[str, ...] = ()
    """Kinds that are denied, whatever else is allowed."""

    def refusal(self, ref: ObjectRef) -> str:
        """Returns the rule that an object breaks, for people; empty if it is allowed.

        An object without a namespace is cluster-scoped.
        """
        # Only Namespaces are judged by their names, so that all other objects of a kind share one
        # decision.
        name = ref.name if (ref.group, ref.kind) == ("", "Namespace") else ""
        return _cached_refusal(self, ref.group, ref.kind, ref.namespace, name)

    def uncached_refusal(self, ref: ObjectRef) -> str:
        """Decides as `refusal`, without its cache."""
        kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        if not _KIND.fullmatch(kind):
            return f"{kind[:80]!r} is not a kind"
        for pattern in self.denied:
            if _is_kind(pattern, ref):
                return f"objects of the kind {kind} are denied (rule {pattern})"
        if ref.namespace:
            return self._namespace_refusal(ref.namespace)
        if not any(_is_kind(pattern, ref) for pattern in self.cluster_scoped):
            return f"cluster-scoped objects of the kind {kind} are not allowed"
        if (ref.group, ref.kind) == ("", "Namespace"):
            return self._namespace_refusal(ref.name)
        return ""

    def _namespace_refusal(self, namespace: str) -> str:
        if not _NAMESPACE.fullmatch(namespace):
            return f"{namespace[:80]!r} is not the name of a namespace"
        for pattern in self.namespaces:
            if not matches(pattern.removeprefix(EXCLUDED), namespace):
                continue
            if not pattern.startswith(EXCLUDED):
                return ""
            return (
                f"the namespace {namespace} is not allowed (an earlier rule gives "
                f"{pattern.removeprefix(EXCLUDED)} to another service account)"
            )
        allowed = [pattern for pattern in self.namespaces if not pattern.startswith(EXCLUDED)]
        return f"the namespace {namespace} is not allowed (allowed: {', '.join(allowed) or 'none'})"


@dataclass(frozen=True, slots=True)
class ServiceFence:
    """The part of a project's fence that holds for one service in one cluster."""

    project: str
    """Name of the project."""
    service_account: str = ""
    """`namespace:name` of the account that applies, reads, heals and prunes the service's objects.
    Empty: the agent itself, in a project without a fence.
    """
    rules: tuple[ObjectRules, ...] = ()
    """Rules that must all allow an object. Empty: every object, in a project without a fence."""
    max_objects: int = 0
    """Maximum number of objects. 0: the limit of every service."""
    images: tuple[ImageSignatureRule, ...] = ()
    """Rules about signatures of images. Only the cluster's own tenants have them: the control plane
    checks its rules with each render."""

    def check(self, ref: ObjectRef) -> None:
        """Raises Invalid for an object that the fence does not allow."""
        for rules in self.rules:
            if refusal := rules.refusal(ref):
                raise Invalid(f"{ref} is outside the fence of project {self.project}: {refusal}")


def qualified_account(account: str, namespace: str) -> str:
    """Returns `namespace:name` of an account, by default in the service's own namespace."""
    return account if ":" in account or not account else f"{namespace}:{account}"


@lru_cache(4096)
def _cached_refusal(rules: ObjectRules, group: str, kind: str, namespace: str, name: str) -> str:
    return rules.uncached_refusal(ObjectRef(group, "", kind, namespace, name))


def _is_kind(pattern: str, ref: ObjectRef) -> bool:
    if pattern == "*":
        return True
    kind, _, group = pattern.partition(".")
    return matches(kind, ref.kind) and matches(group, ref.group)
