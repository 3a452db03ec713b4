"""Reads the moved refs from webhooks of git hosts.

Pure parsers of untrusted JSON that never raise. An announcement is only a hint; the git server
is asked for the truth.
"""

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from core.json_object import JsonMapping

MAX_REFS = 100
"""Maximum number of refs read from one push; the poll finds the others."""

_MAX_TEXT = 512
_NOTHING = {"0" * 40, "0" * 64}


def announced(provider: str, payload: object) -> dict[str, str]:
    """Maps full ref names to announced shas, for the existing branches and tags of a push.

    Returns an empty map for other events, unknown providers and unexpected JSON.
    """
    read = _READERS.get(provider)
    if read is None or not isinstance(payload, dict):
        return {}
    found: dict[str, str] = {}
    for ref, sha in read(payload):
        if len(found) < MAX_REFS and _is_ref(ref) and _is_sha(sha):
            found[ref] = sha
    return found


def _push(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads GitHub, GitLab, Gitea, Forgejo and Gogs: one ref and its new tip."""
    yield payload.get("ref"), payload.get("checkout_sha") or payload.get("after")


def _bitbucket(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Bitbucket Cloud (`push.changes[].new`) and Server (`changes[]`)."""
    for change in _maps(_map(payload.get("push")).get("changes")):
        new = _map(change.get("new"))
        kind = "tags" if new.get("type") in {"tag", "annotated_tag"} else "heads"
        yield f"refs/{kind}/{new.get('name')}", _map(new.get("target")).get("hash")
    for change in _maps(payload.get("changes")):
        yield change.get("refId") or _map(change.get("ref")).get("id"), change.get("toHash")


def _azure(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Azure DevOps (`resource.refUpdates[]`)."""
    for update in _maps(_map(payload.get("resource")).get("refUpdates")):
        yield update.get("name"), update.get("newObjectId")


def _plain(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Towline's own format for custom hooks: `{"refs": {"refs/heads/main": "<sha>"}}`."""
    yield from _map(payload.get("refs")).items()


_READERS = {
    "github": _push,
    "gitlab": _push,
    "gitea": _push,
    "bitbucket": _bitbucket,
    "azure": _azure,
    "plain": _plain,
}
PROVIDERS = frozenset(_READERS)


def _map(value: object) -> JsonMapping:
    return value if isinstance(value, dict) else {}


def _maps(value: object) -> Iterator[JsonMapping]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _is_ref(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("refs/") and len(value) <= _MAX_TEXT


def _is_sha(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or len(value) not in {40, 64} or value in _NOTHING:
        return False
    return set(value) <= set("0123456789abcdef")
