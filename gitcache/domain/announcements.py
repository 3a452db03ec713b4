"""Reads the moved refs, and the account that pushed, from webhooks of git hosts.

Pure parsers of untrusted JSON that never raise. An announcement is only a hint; the git server
is asked for the truth. Only the host knows the account, whose word the signature proves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from core.json_object import JsonMapping

MAX_REFS = 100
"""Maximum number of refs read from one push; the poll finds the others."""

_MAX_TEXT = 512
_MAX_NAME = 255
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


@dataclass(frozen=True, slots=True)
class Pusher:
    """Account of a Git host, which has authenticated it."""

    name: str
    email: str = ""
    """E-mail address of the account. Empty: the host hides it."""


def pusher(provider: str, payload: object) -> Pusher | None:
    """Reads the account that pushed; None if the webhook does not name one."""
    read = _PUSHERS.get(provider)
    if read is None or not isinstance(payload, dict):
        return None
    name, email = (_text(value) for value in read(payload))
    return Pusher(name, email if "@" in email else "") if name or "@" in email else None


def _github_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    return _map(payload.get("sender")).get("login"), _map(payload.get("pusher")).get("email")


def _gitlab_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    return payload.get("user_username"), payload.get("user_email")


def _gitea_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    account = _map(payload.get("pusher"))
    return account.get("login") or account.get("username"), account.get("email")


def _bitbucket_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    """Reads Bitbucket Cloud (`actor.nickname`) and Server (`actor.name`)."""
    account = _map(payload.get("actor"))
    return account.get("nickname") or account.get("name"), account.get("emailAddress")


def _azure_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    account = _map(_map(payload.get("resource")).get("pushedBy"))
    return account.get("displayName"), account.get("uniqueName")


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
_PUSHERS = {
    "github": _github_pusher,
    "gitlab": _gitlab_pusher,
    "gitea": _gitea_pusher,
    "bitbucket": _bitbucket_pusher,
    "azure": _azure_pusher,
}


def _map(value: object) -> JsonMapping:
    return value if isinstance(value, dict) else {}


def _maps(value: object) -> Iterator[JsonMapping]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _text(value: object) -> str:
    """Returns a short printable text; empty for anything else."""
    is_short = isinstance(value, str) and len(value) <= _MAX_NAME and value.isprintable()
    return value if is_short else ""


def _is_ref(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("refs/") and len(value) <= _MAX_TEXT


def _is_sha(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or len(value) not in {40, 64} or value in _NOTHING:
        return False
    return set(value) <= set("0123456789abcdef")
