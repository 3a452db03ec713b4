"""What stands in the way of a change: a sentence for people, and the row itself for programs."""

from datetime import datetime
from typing import Any

from controlplane.domain.access import Actor, Verb
from fleet.errors import Conflict

_TOLD = ("id", "handle", "name", "namespace", "url", "email")


def taken(actor: Actor, row: Any, message: str) -> Conflict:
    """A name that another row has; which one, as far as the actor may read it."""
    return Conflict(message, current=_state(row) if actor.may(Verb.READ, row.target) else None)


def check_unchanged(row: Any, since: datetime | None, what: str) -> None:
    """Conflict: the row was written after the moment at which the caller has seen it.

    For rows that the actor may write; without a moment the last one to write wins.
    """
    if since is not None and row.updated_at > since:
        message = f"{what} was changed at {row.updated_at:%FT%T.%fZ}: read it again, then change it"
        raise Conflict(message, current=_state(row))


def _state(row: Any) -> dict[str, object]:
    state = {name: getattr(row, name) for name in _TOLD if hasattr(row, name)}
    return state | {"updatedAt": row.updated_at.isoformat()}
