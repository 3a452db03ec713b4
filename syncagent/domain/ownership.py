"""Labels and annotations that identify the agent's own objects.
Watches select by the label. Controllers and people copy labels (a Service's to its EndpointSlices),
so an object counts as owned only if an annotation also names this very object.
"""

import base64
import hashlib
from dataclasses import dataclass

import orjson

from core.sealing import PLACEHOLDER_PREFIX
from core.spec.desired import BundleSpec
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.sync import IgnoredDifference
from syncagent.domain.directives import ORDINARY, Directives, annotations_of, directives_of
from syncagent.domain.hooks import Hook, hook_of
from syncagent.domain.managed_fields import contains_field, entries_of, fields_of
from syncagent.domain.objects import KubeObject, metadata_of, ref_of
from syncagent.domain.observed.user_rules import matches_object
from syncagent.domain.sealed_values import SealedValues
from syncagent.domain.waves import Wave, wave_of

FIELD_MANAGER = "towline"
SERVICE_LABEL = "towline.dev/service"
NAME_ANNOTATION = "towline.dev/service-name"
OBJECT_ANNOTATION = "towline.dev/object"
HOOK_ANNOTATION = "towline.dev/hook-run"

# The API server sets these; in a manifest they are noise or make it refuse the apply.
_SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")


@dataclass(frozen=True, slots=True)
class ObjectManifest:
    """An object to apply, with our labels and annotations; `digest` changes with its content.
    `ignored`: the fields that others manage once it exists. `sealed_values`: those that it needs.
    """

    ref: ObjectRef
    body: KubeObject
    digest: str
    wave: Wave
    directives: Directives = ORDINARY
    ignored: tuple[IgnoredDifference, ...] = ()
    sealed_values: SealedValues = ()

    @property
    def key(self) -> ObjectKey:
        return self.ref.key


@dataclass(frozen=True, slots=True)
class HookManifest:
    """The object of a hook, without the annotation of a run."""

    ref: ObjectRef
    body: KubeObject
    hook: Hook
    sealed_values: SealedValues = ()


def manifest_of(
    raw: KubeObject,
    service_id: str,
    spec: BundleSpec,
    namespaced: bool,
    sealed_values: SealedValues = (),
) -> ObjectManifest:
    """Builds the manifest of one object of a bundle without changing `raw`.
    A new version of a sealed value changes the digest; sealing the same version again does not.
    """
    body = _cleaned(raw, spec, namespaced)
    ref = ref_of(body)
    _set_annotation(body, service_id, spec, OBJECT_ANNOTATION, _identity(ref))
    directives = directives_of(body)
    ignored = tuple(
        difference for difference in spec.options.ignored if matches_object(difference, ref)
    )
    digest = fingerprint(
        [body, _fingerprint_words(ignored, sealed_values)] if ignored or sealed_values else body
    )
    return ObjectManifest(
        ref, body, digest, (directives.wave, wave_of(ref)), directives, ignored, sealed_values
    )


def _fingerprint_words(
    ignored: tuple[IgnoredDifference, ...], sealed_values: SealedValues
) -> list[list[str]]:
    """Lists the inputs of the digest besides the body."""
    words = [[*difference.pointers, "", *difference.managers] for difference in ignored]
    return words + [[sealed_value.name, sealed_value.version] for sealed_value in sealed_values]


def hook_manifest(
    raw: KubeObject,
    service_id: str,
    spec: BundleSpec,
    namespaced: bool,
    sealed_values: SealedValues = (),
) -> HookManifest | None:
    """Builds the hook of an object of a bundle; None for an ordinary object. Invalid: see
    `hook_of`.
    An object with `generateName` gets a name that is equal in every attempt of this digest.
    """
    hook = hook_of(raw)
    if hook is None:
        return None
    body = _cleaned(raw, spec, namespaced)
    prefix = body["metadata"].pop("generateName", "")
    if not body["metadata"].get("name"):
        body["metadata"]["name"] = prefix + fingerprint([service_id, spec.digest, raw])[:10]
    _set_annotation(body, service_id, spec, HOOK_ANNOTATION, "")
    return HookManifest(ref_of(body), body, hook, sealed_values)


def with_run(hook: HookManifest, mark: str) -> KubeObject:
    """Builds the object of a hook for one run."""
    meta = hook.body["metadata"]
    marked = meta | {"annotations": meta["annotations"] | {HOOK_ANNOTATION: mark}}
    return hook.body | {"metadata": marked}


def run_of(live: KubeObject) -> str | None:
    """Returns the run that created a hook's object; None if it is not one of our hooks."""
    return annotations_of(live).get(HOOK_ANNOTATION)


def owner_of(live: KubeObject) -> str | None:
    """Returns the id of the service that owns a live object; None for foreign objects and
    copies.
    """
    meta = metadata_of(live)
    named = (meta.get("annotations") or {}).get(OBJECT_ANNOTATION)
    if named != _identity(ref_of(live)):
        return None
    return (meta.get("labels") or {}).get(SERVICE_LABEL)


def claiming_service(live: KubeObject) -> str | None:
    """Describes the service that claims an object, by name and id.
    None if the object has no label, or if its label was not written by a Towline agent.
    """
    service_id = owner_of(live)
    mark = ("f:metadata", "f:labels", f"f:{SERVICE_LABEL}")
    applied = (
        entry.get("manager") == FIELD_MANAGER
        and entry.get("operation") == "Apply"
        and contains_field(fields_of(entry), mark)
        for entry in entries_of(live)
    )
    if service_id is None or not any(applied):
        return None
    return f"{annotations_of(live).get(NAME_ANNOTATION, '')} ({service_id})"


def release_patch() -> KubeObject:
    """Builds the merge patch (RFC 7386) that removes our labels and annotations."""
    marks: dict[str, object] = {
        "labels": {SERVICE_LABEL: None},
        "annotations": {NAME_ANNOTATION: None, OBJECT_ANNOTATION: None},
    }
    return {"metadata": marks}


def fingerprint(value: object) -> str:
    """Hashes JSON content; equal content has an equal hash."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _identity(ref: ObjectRef) -> str:
    return f"{ref.kind}.{ref.group}/{ref.namespace}/{ref.name}"


def _cleaned(raw: KubeObject, spec: BundleSpec, namespaced: bool) -> KubeObject:
    meta = {k: v for k, v in metadata_of(raw).items() if k not in _SERVER_FIELDS}
    if namespaced:
        meta["namespace"] = meta.get("namespace") or spec.namespace
    else:
        meta.pop("namespace", None)
    body = {k: v for k, v in raw.items() if k != "status"} | {"metadata": meta}
    _encode_string_data(body)
    return body


def _set_annotation(
    body: KubeObject, service_id: str, spec: BundleSpec, mark: str, value: str
) -> None:
    meta = body["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), SERVICE_LABEL: service_id}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        NAME_ANNOTATION: spec.name,
        mark: value,
    }


def _encode_string_data(body: KubeObject) -> None:
    """Converts a Secret's stringData to data, which the API server stores and drift detection
    compares.
    Text with placeholders of sealed values stays text and is filled in later.
    """
    if body.get("kind") != "Secret" or not isinstance(body.get("stringData"), dict):
        return
    plain = {k: str(v) for k, v in body.pop("stringData").items()}
    encoded = {
        k: v if PLACEHOLDER_PREFIX.decode() in v else base64.b64encode(v.encode()).decode()
        for k, v in plain.items()
    }
    body["data"] = {**(body.get("data") or {}), **encoded}
