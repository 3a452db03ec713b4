"""Conflict errors: a message for users, and the conflicting row for programs."""

from datetime import datetime
from typing import Any

from controlplane.authorization import Actor, Verb
from core.errors import Conflict

_SHOWN_FIELDS = ("id", "handle", "name", "namespace", "url", "email")


def name_conflict(actor: Actor, row: Any, message: str) -> Conflict:
    """Conflict for a name that is already used; includes the other row if the actor may read it."""
    return Conflict(
        message, current=_shown_state(row) if actor.may(Verb.READ, row.target) else None
    )


def check_unchanged(row: Any, since: datetime | None, title: str) -> None:
    """Conflict: the row changed after `since`, the time at which the caller read it.

    For rows that the actor may write. Without `since` the last write wins.
    """
    if since is not None and row.updated_at > since:
        message = f"{title} was changed at {row.updated_at:%FT%T.%fZ}: read it again, then retry"
        raise Conflict(message, current=_shown_state(row))


def _shown_state(row: Any) -> dict[str, object]:
    state = {name: getattr(row, name) for name in _SHOWN_FIELDS if hasattr(row, name)}
    return state | {"updatedAt": row.updated_at.isoformat()}
