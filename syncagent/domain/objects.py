"""Names of objects and kinds."""

from sys import intern

from core.json_object import JsonObject
from core.spec.bundle import KubeObject
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef, group_version_kind

KubeFields = JsonObject
"""A part of an object, such as its metadata, spec or status."""


def api_of(obj: KubeObject) -> GroupVersionKind:
    """Returns the API of an object from its apiVersion and kind."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return group_version_kind(group, version, str(obj.get("kind", "")))


def ref_of(obj: KubeObject) -> ObjectRef:
    """Returns the reference of an object from its own metadata."""
    api, meta = api_of(obj), metadata_of(obj)
    return ObjectRef(
        api.group, api.version, api.kind, intern(_text(meta, "namespace")), _text(meta, "name")
    )


def _text(meta: KubeObject, name: str) -> str:
    """Returns a field of the metadata; empty also if it is not text, in an invalid object."""
    value = meta.get(name)
    return value if isinstance(value, str) else ""


def key_of(obj: KubeObject) -> ObjectKey:
    """Returns the key of an object, which is equal in every version of its API."""
    api, meta = api_of(obj), metadata_of(obj)
    return (api.group, api.kind, meta.get("namespace") or "", meta.get("name") or "")


def metadata_of(obj: KubeObject) -> KubeFields:
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
