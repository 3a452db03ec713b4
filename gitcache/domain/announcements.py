"""Reads the moved refs, and the account that pushed, from webhooks of git hosts.

Pure parsers of untrusted JSON that never raise. An announcement is only a hint; the git server
is asked for the truth. Only the host knows the account, whose word the signature proves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from core.json_object import JsonMapping
from gitcache.domain import refs

MAX_REFS = 100
"""Maximum number of refs read from one push; the poll finds the others."""

_MAX_TEXT = 512
_MAX_NAME = 255
_NULL_SHAS = {"0" * 40, "0" * 64}


def announced_refs(provider: str, payload: object) -> dict[str, str]:
    """Maps full ref names to announced shas, for the existing branches and tags of a push.

    Returns an empty map for other events, unknown providers and unexpected JSON.
    """
    read = _READERS.get(provider)
    if read is None or not isinstance(payload, dict):
        return {}
    announced: dict[str, str] = {}
    for ref, sha in read(payload):
        if len(announced) < MAX_REFS and _is_ref(ref) and _is_sha(sha):
            announced[ref] = sha
    return announced


@dataclass(frozen=True, slots=True)
class Pusher:
    """Account of a Git host, which has authenticated it."""

    name: str
    email: str = ""
    """E-mail address of the account. Empty: the host hides it."""


def read_pusher(provider: str, payload: object) -> Pusher | None:
    """Reads the account that pushed; None if the webhook does not name one."""
    read = _PUSHERS.get(provider)
    if read is None or not isinstance(payload, dict):
        return None
    name, email = (_short_text(value) for value in read(payload))
    return Pusher(name, email if "@" in email else "") if name or "@" in email else None


def _github_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    return _mapping(payload.get("sender")).get("login"), _mapping(payload.get("pusher")).get(
        "email"
    )


def _gitlab_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    return payload.get("user_username"), payload.get("user_email")


def _gitea_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    account = _mapping(payload.get("pusher"))
    return account.get("login") or account.get("username"), account.get("email")


def _bitbucket_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    """Reads Bitbucket Cloud (`actor.nickname`) and Server (`actor.name`)."""
    account = _mapping(payload.get("actor"))
    return account.get("nickname") or account.get("name"), account.get("emailAddress")


def _azure_pusher(payload: Mapping[str, object]) -> tuple[object, object]:
    account = _mapping(_mapping(payload.get("resource")).get("pushedBy"))
    return account.get("displayName"), account.get("uniqueName")


def _single_ref(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads GitHub, GitLab, Gitea, Forgejo and Gogs: one ref and its new tip."""
    yield payload.get("ref"), payload.get("checkout_sha") or payload.get("after")


def _bitbucket_refs(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Bitbucket Cloud (`push.changes[].new`) and Server (`changes[]`)."""
    for change in _mappings(_mapping(payload.get("push")).get("changes")):
        new = _mapping(change.get("new"))
        kind = "tags" if new.get("type") in {"tag", "annotated_tag"} else "heads"
        yield f"refs/{kind}/{new.get('name')}", _mapping(new.get("target")).get("hash")
    for change in _mappings(payload.get("changes")):
        yield change.get("refId") or _mapping(change.get("ref")).get("id"), change.get("toHash")


def _azure_refs(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Azure DevOps (`resource.refUpdates[]`)."""
    for update in _mappings(_mapping(payload.get("resource")).get("refUpdates")):
        yield update.get("name"), update.get("newObjectId")


def _plain_refs(payload: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    """Reads Towline's own format for custom hooks: `{"refs": {"refs/heads/main": "<sha>"}}`."""
    yield from _mapping(payload.get("refs")).items()


_READERS = {
    "github": _single_ref,
    "gitlab": _single_ref,
    "gitea": _single_ref,
    "bitbucket": _bitbucket_refs,
    "azure": _azure_refs,
    "plain": _plain_refs,
}
PROVIDERS = frozenset(_READERS)
_PUSHERS = {
    "github": _github_pusher,
    "gitlab": _gitlab_pusher,
    "gitea": _gitea_pusher,
    "bitbucket": _bitbucket_pusher,
    "azure": _azure_pusher,
}


def _mapping(value: object) -> JsonMapping:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Iterator[JsonMapping]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _short_text(value: object) -> str:
    """Returns a short printable text; empty for anything else."""
    is_short = isinstance(value, str) and len(value) <= _MAX_NAME and value.isprintable()
    return value if is_short else ""


def _is_ref(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("refs/") and len(value) <= _MAX_TEXT


def _is_sha(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and refs.is_sha(value) and value not in _NULL_SHAS
