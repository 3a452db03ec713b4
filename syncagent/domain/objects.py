"""Names of objects and kinds."""

from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any

KubeObject = dict[str, Any]

# group, kind, namespace, name: an object is the same in every version of its API.
ObjectKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object; `namespace` is empty for cluster-wide kinds, `group` for the core group."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return (self.group, self.kind, self.namespace, self.name)

    @property
    def api(self) -> "GroupVersionKind":
        return _api(self.group, self.version, self.kind)

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


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


def api_of(obj: KubeObject) -> GroupVersionKind:
    """Returns the API of an object from its apiVersion and kind."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return _api(group, version, str(obj.get("kind", "")))


@lru_cache(1024)
def _api(group: str, version: str, kind: str) -> GroupVersionKind:
    """Returns the shared value of a kind: thousands of objects have a few kinds."""
    return GroupVersionKind(group, version, kind)


def ref_of(obj: KubeObject) -> ObjectRef:
    """Returns the reference of an object from its own metadata."""
    api, meta = api_of(obj), metadata_of(obj)
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    if isinstance(namespace, str):
        namespace = intern(namespace)
    return ObjectRef(api.group, api.version, api.kind, namespace, name)


def key_of(obj: KubeObject) -> ObjectKey:
    """Returns the key of an object, which is equal in every version of its API."""
    api, meta = api_of(obj), metadata_of(obj)
    return (api.group, api.kind, meta.get("namespace") or "", meta.get("name") or "")


def metadata_of(obj: KubeObject) -> dict[str, Any]:
    """Returns an object's metadata; empty if they are not a map."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def resource_version(obj: KubeObject) -> int:
    """Returns the object's version as a number (comparable since Kubernetes 1.35); 0
    without one.
    """
    text = metadata_of(obj).get("resourceVersion") or ""
    return int(text) if text.isdecimal() else 0


def controller_uid(obj: KubeObject) -> str:
    """Returns the uid of the object's controller; empty without one."""
    for owner in metadata_of(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return owner.get("uid") or ""
    return ""
