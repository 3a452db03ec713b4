"""The marks by which the agent knows its own objects again.

The label is what watches select by. Labels travel (the Service's to its EndpointSlices, any to a
copy made by hand), so an object is owned only if an annotation also names this very object.
"""

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from syncagent.domain.objects import KubeObject, ObjectKey, ObjectRef, metadata_of, ref_of
from syncagent.domain.services import ServiceSpec
from syncagent.domain.waves import wave_of

FIELD_MANAGER = "towline"
SERVICE_LABEL = "towline.dev/service"
NAME_ANNOTATION = "towline.dev/service-name"
OBJECT_ANNOTATION = "towline.dev/object"
PRUNE_ANNOTATION = "towline.dev/prune"

# Set by the API server; in a manifest they are noise or make it refuse the apply.
_SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it is applied: named, marked, cleaned; `digest` changes with its content."""

    ref: ObjectRef
    body: KubeObject
    digest: str
    wave: int

    @property
    def key(self) -> ObjectKey:
        return self.ref.key


def manifest_of(raw: KubeObject, service_id: str, spec: ServiceSpec, namespaced: bool) -> Manifest:
    """The manifest of one object of a bundle; `raw` itself is not changed."""
    meta = {k: v for k, v in metadata_of(raw).items() if k not in _SERVER_FIELDS}
    if namespaced:
        meta["namespace"] = meta.get("namespace") or spec.namespace
    else:
        meta.pop("namespace", None)
    body = {k: v for k, v in raw.items() if k != "status"} | {"metadata": meta}
    _encode_string_data(body)
    ref = ref_of(body)
    meta["labels"] = {**(meta.get("labels") or {}), SERVICE_LABEL: service_id}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        NAME_ANNOTATION: spec.name,
        OBJECT_ANNOTATION: _identity(ref),
    }
    return Manifest(ref, body, fingerprint(body), wave_of(ref))


def owner_of(live: KubeObject) -> str | None:
    """Id of the service that owns a live object; None if it is not marked or is a mere copy."""
    meta = metadata_of(live)
    named = (meta.get("annotations") or {}).get(OBJECT_ANNOTATION)
    if named != _identity(ref_of(live)):
        return None
    return (meta.get("labels") or {}).get(SERVICE_LABEL)


def may_prune(live: KubeObject) -> bool:
    """False if somebody has asked for the object to be kept."""
    kept = (metadata_of(live).get("annotations") or {}).get(PRUNE_ANNOTATION)
    return str(kept).lower() != "false"


def release_patch() -> KubeObject:
    """The merge patch (RFC 7386) that takes our marks off an object."""
    marks: dict[str, Any] = {
        "labels": {SERVICE_LABEL: None},
        "annotations": {NAME_ANNOTATION: None, OBJECT_ANNOTATION: None},
    }
    return {"metadata": marks}


def fingerprint(value: Any) -> str:
    """A short name of JSON content: equal content, equal name."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _identity(ref: ObjectRef) -> str:
    return f"{ref.kind}.{ref.group}/{ref.namespace}/{ref.name}"


def _encode_string_data(body: KubeObject) -> None:
    """Write a Secret's stringData as data, where the API server keeps it and drift is seen."""
    if body.get("kind") == "Secret" and isinstance(body.get("stringData"), dict):
        plain = body.pop("stringData")
        encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in plain.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
