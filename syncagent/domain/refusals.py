"""What is wrong with a bundle as a whole, found before anything of it is applied."""

import re
from collections.abc import Iterable, Mapping

from fleet.bundle import MAX_OBJECT_BYTES, describe
from fleet.errors import Invalid
from syncagent.domain.changes import is_secret
from syncagent.domain.hooks import hook_of
from syncagent.domain.objects import KubeObject, ObjectKey, api_of, metadata_of

_LONGEST_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Kinds whose names may hold more than RFC 1123 allows: colons, capitals.
_FREE_NAMES = re.compile(r"rbac\.authorization\.k8s\.io|(.*\.)?openshift\.io|metrics\.k8s\.io")


def check_object(one: KubeObject, size: int) -> None:
    """Invalid: this can be no object, or would reach another path than that of one object."""
    if size > MAX_OBJECT_BYTES:
        raise Invalid(
            f"{describe(one)} has {size:,} bytes; the API server takes {MAX_OBJECT_BYTES:,} at most"
        )
    if not isinstance(one.get("metadata"), dict):
        raise Invalid(f"{one.get('kind', 'object')} without metadata")
    if not isinstance(one.get("kind"), str) or not isinstance(one.get("apiVersion"), str):
        raise Invalid(f"{describe(one)} has no apiVersion or kind")
    meta = metadata_of(one)
    for part in ("labels", "annotations"):
        if not _is_words(meta.get(part)):
            raise Invalid(f"{describe(one)}: its {part} must be text, each with a text")
    if is_secret(one) and not _is_words(one.get("data")):
        # The API server's own refusal would repeat the value.
        raise Invalid(f"{describe(one)}: its data must be text (base64), each of it")
    if is_secret(one) and not isinstance(one.get("stringData") or {}, dict):
        raise Invalid(f"{describe(one)}: its stringData must be names, each with a text")
    name, namespace = meta.get("name"), meta.get("namespace") or ""
    if not name and isinstance(meta.get("generateName"), str) and hook_of(one) is not None:
        name = meta["generateName"] + "0"
    if not isinstance(name, str) or not name:
        raise Invalid(f"{describe(one)} has no name; a generated one cannot be kept as desired")
    _check_name(one, name, str(namespace))


def check_owners(objects: Mapping[ObjectKey, KubeObject]) -> None:
    """Invalid: objects of the bundle name each other as owners in a circle."""
    owners = {
        key: _owners(key, one) & objects.keys()
        for key, one in objects.items()
        if metadata_of(one).get("ownerReferences")
    }
    settled: set[ObjectKey] = set()
    for start in owners:
        _walk(start, owners, settled)


def _walk(
    start: ObjectKey, owners: Mapping[ObjectKey, set[ObjectKey]], settled: set[ObjectKey]
) -> None:
    """Follow owners depth first, without recursion: a bundle may hold a chain of thousands."""
    path: dict[ObjectKey, None] = {}
    todo: list[tuple[ObjectKey, bool]] = [(start, False)]
    while todo:
        key, leaving = todo.pop()
        if leaving:
            path.pop(key, None)
            settled.add(key)
        elif key in path:
            raise Invalid(f"owner references go in a circle: {_names(path)}")
        elif key not in settled:
            path[key] = None
            todo.append((key, True))
            todo += [(owner, False) for owner in owners.get(key, ())]


def _owners(key: ObjectKey, one: KubeObject) -> set[ObjectKey]:
    """Keys of an object's owners: in its own namespace, or cluster-wide."""
    references = metadata_of(one).get("ownerReferences")
    found: set[ObjectKey] = set()
    for owner in references if isinstance(references, list) else ():
        if isinstance(owner, dict):
            group, kind = api_of(owner).group, str(owner.get("kind"))
            name = str(owner.get("name"))
            found |= {(group, kind, key[2], name), (group, kind, "", name)}
    return found


def _is_words(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    )


def _names(keys: Iterable[ObjectKey]) -> str:
    return " → ".join(f"{kind} {name}" for _, kind, _, name in list(keys)[:5])


def _check_name(one: KubeObject, name: str, namespace: str) -> None:
    if namespace and not _LABEL.fullmatch(namespace):
        raise Invalid(f"{describe(one)}: its namespace must be a DNS label by RFC 1123")
    if len(name) <= _LONGEST_NAME and _SUBDOMAIN.fullmatch(name):
        return
    if "/" in name or "%" in name or name in {".", ".."}:
        raise Invalid(f"{describe(one)}: {name!r} is not a name")
    if len(name) > _LONGEST_NAME or not _FREE_NAMES.fullmatch(api_of(one).group):
        raise Invalid(
            f"{describe(one)}: its name must be a DNS name by RFC 1123: "
            "small letters, digits, - and ."
        )
