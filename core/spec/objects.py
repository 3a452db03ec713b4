"""Names of Kubernetes objects, and changes of their fields."""

from dataclasses import dataclass
from functools import lru_cache

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name): an object is the same in every version of its API."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object of a cluster."""

    group: str
    """API group. Empty for the core group."""
    version: str
    """API version. Empty if it does not matter."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str
    """Namespace. Empty for a cluster-scoped object."""
    name: str
    """Name."""

    @property
    def key(self) -> ObjectKey:
        return (self.group, self.kind, self.namespace, self.name)

    @property
    def api(self) -> "GroupVersionKind":
        return group_version_kind(self.group, self.version, self.kind)

    def __str__(self) -> str:
        prefix = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {prefix}{self.name}"


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """A kind in one version of its API group."""

    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind} of {self.group_version}"


@lru_cache(1024)
def group_version_kind(group: str, version: str, kind: str) -> GroupVersionKind:
    """Returns the shared value of a kind: thousands of objects have a few kinds."""
    return GroupVersionKind(group, version, kind)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs, with both values as shortened JSON."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    old: str
    """Old value as JSON. Empty if the field is new."""
    new: str
    """New value as JSON. Empty if the field is removed."""
