"""Validation of a whole bundle before any of it is applied."""

import re
from collections.abc import Iterable, Mapping

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECT_BYTES, describe_object
from core.spec.objects import ObjectKey
from syncagent.domain.field_change import is_secret
from syncagent.domain.hooks import hook_of
from syncagent.domain.objects import KubeObject, api_of, metadata_of

_MAX_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# A path in the version would lead discovery, and then writes, to another place of the API.
_VERSION = re.compile(rf"(?:(?:{_SUBDOMAIN.pattern})/)?{_LABEL.pattern}")
# API groups whose names may contain colons and capitals, beyond RFC 1123.
_FREE_NAMES = re.compile(r"rbac\.authorization\.k8s\.io|(.*\.)?openshift\.io|metrics\.k8s\.io")


def check_object(obj: KubeObject, size: int) -> None:
    """Checks an object. Invalid: it is not a valid object, or its name would escape its API
    path.
    """
    if size > MAX_OBJECT_BYTES:
        raise Invalid(
            f"{describe_object(obj)} has {size:,} bytes; "
            f"the API server accepts {MAX_OBJECT_BYTES:,}"
        )
    _check_type(obj)
    meta = metadata_of(obj)
    for part in ("labels", "annotations"):
        if not _is_text_map(meta.get(part)):
            raise Invalid(f"{describe_object(obj)}: its {part} must be a map of strings")
    if is_secret(obj) and not _is_text_map(obj.get("data")):
        # The API server's own error would contain the value.
        raise Invalid(f"{describe_object(obj)}: its data must be a map of base64 strings")
    if is_secret(obj) and not isinstance(obj.get("stringData") or {}, dict):
        raise Invalid(f"{describe_object(obj)}: its stringData must be a map of strings")
    name, namespace = meta.get("name"), meta.get("namespace") or ""
    if not name and isinstance(meta.get("generateName"), str) and hook_of(obj) is not None:
        name = meta["generateName"] + "0"
    if not isinstance(name, str) or not name:
        raise Invalid(
            f"{describe_object(obj)} has no name; objects with generateName cannot be kept in sync"
        )
    if not isinstance(namespace, str):
        raise Invalid(f"{describe_object(obj)}: its namespace must be text")
    _check_name(obj, name, namespace)


def _check_type(obj: KubeObject) -> None:
    if not isinstance(obj.get("metadata"), dict):
        raise Invalid(f"{obj.get('kind', 'object')} without metadata")
    types = (obj.get("kind"), obj.get("apiVersion"))
    if not all(isinstance(text, str) and text for text in types):
        raise Invalid(f"{describe_object(obj)} has no apiVersion or kind")
    if not _VERSION.fullmatch(obj["apiVersion"]):
        raise Invalid(f"{describe_object(obj)}: its apiVersion must be VERSION or GROUP/VERSION")


def check_owners(objects: Mapping[ObjectKey, KubeObject]) -> None:
    """Checks owner references. Invalid: objects of the bundle form a cycle."""
    owners = {
        key: _owner_keys(key, body) & objects.keys()
        for key, body in objects.items()
        if metadata_of(body).get("ownerReferences")
    }
    settled: set[ObjectKey] = set()
    for start in owners:
        _check_cycle(start, owners, settled)


def _check_cycle(
    start: ObjectKey, owners: Mapping[ObjectKey, set[ObjectKey]], settled: set[ObjectKey]
) -> None:
    """Follows owners depth first, without recursion: a bundle may contain a chain of thousands."""
    path: dict[ObjectKey, None] = {}
    pending: list[tuple[ObjectKey, bool]] = [(start, False)]
    while pending:
        key, leaving = pending.pop()
        if leaving:
            path.pop(key, None)
            settled.add(key)
        elif key in path:
            raise Invalid(f"owner references form a cycle: {_describe_keys(path)}")
        elif key not in settled:
            path[key] = None
            pending.append((key, True))
            pending += [(owner, False) for owner in owners.get(key, ())]


def _owner_keys(key: ObjectKey, obj: KubeObject) -> set[ObjectKey]:
    """Returns the possible keys of an object's owners: in its own namespace, or cluster-wide."""
    references = metadata_of(obj).get("ownerReferences")
    found: set[ObjectKey] = set()
    for owner in references if isinstance(references, list) else ():
        if isinstance(owner, dict):
            group, kind = api_of(owner).group, str(owner.get("kind"))
            name = str(owner.get("name"))
            found |= {(group, kind, key[2], name), (group, kind, "", name)}
    return found


def _is_text_map(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    )


def _describe_keys(keys: Iterable[ObjectKey]) -> str:
    return " → ".join(f"{kind} {name}" for _, kind, _, name in list(keys)[:5])


def _check_name(obj: KubeObject, name: str, namespace: str) -> None:
    if namespace and not _LABEL.fullmatch(namespace):
        raise Invalid(f"{describe_object(obj)}: its namespace must be a DNS label (RFC 1123)")
    if len(name) <= _MAX_NAME and _SUBDOMAIN.fullmatch(name):
        return
    if "/" in name or "%" in name or name in {".", ".."}:
        raise Invalid(f"{describe_object(obj)}: {name!r} is not a name")
    if len(name) > _MAX_NAME or not _FREE_NAMES.fullmatch(api_of(obj).group):
        raise Invalid(
            f"{describe_object(obj)}: its name must be a DNS name (RFC 1123): "
            "lower-case letters, digits, - and ."
        )
