"""Reverts of drift, and the end of a fight with another manager."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from controlplane.manifests.model.ownership import digest
from controlplane.manifests.model.plan import ManifestAction, ManifestEffect

MAX_REVERTS = 3
"""Maximum number of reverts of one field between two commits."""
_MAX_VALUE = 2_000
_MAX_NAMED = 5


def changes_of(items: Iterable[ManifestEffect]) -> list[ManifestEffect]:
    """Returns the effects that change something."""
    return [item for item in items if item.action is not ManifestAction.UNCHANGED]


def plan_digest(sha: str, items: Sequence[ManifestEffect]) -> str:
    """Returns the digest of a plan. It names the commit, so equal masks hide no other secret."""
    rows = [
        [item.action, item.kind, item.name, [[c.path, c.before, c.after] for c in item.changes]]
        for item in items
    ]
    return digest([sha, rows]) if items else ""


def fought_fields(items: Iterable[ManifestEffect], reverts: Mapping[str, int]) -> list[str]:
    """Returns the drifted fields that were reverted too often, with their other managers."""
    owners = {_field_key(item, c.path): c.owner for item in items for c in item.conflicts}
    return [
        f"{field} (set by {owners[field]})" if field in owners else field
        for field in _field_keys(items)
        if reverts.get(field, 0) >= MAX_REVERTS
    ]


def fight_message(fields: Sequence[str]) -> str:
    """Returns the reason for which drift is no longer reverted."""
    names = ", ".join(fields[:_MAX_NAMED]) + (", …" if len(fields) > _MAX_NAMED else "")
    return (
        f"was reverted {MAX_REVERTS} times and set again: {names}. Agree on one manager; the next "
        "commit or sync applies the folder again"
    )


def counted_reverts(items: Iterable[ManifestEffect], reverts: Mapping[str, int]) -> dict[str, int]:
    """Returns the number of reverts of each field after one more."""
    return {**reverts, **{field: reverts.get(field, 0) + 1 for field in _field_keys(items)}}


def shortened(items: Sequence[ManifestEffect], limit: int) -> tuple[ManifestEffect, ...]:
    """Returns the first effects, with long values shortened."""
    return tuple(_shortened_effect(item) for item in items[:limit])


def _shortened_effect(item: ManifestEffect) -> ManifestEffect:
    changes = (
        replace(c, before=_shortened_value(c.before), after=_shortened_value(c.after))
        for c in item.changes
    )
    return replace(item, changes=tuple(changes))


def _shortened_value(value: str | None) -> str | None:
    """Returns JSON, as a text that ends with an ellipsis if it is too long."""
    if value is None or len(value) <= _MAX_VALUE:
        return value
    return json.dumps(value[:_MAX_VALUE] + "…", ensure_ascii=False)


def _field_keys(items: Iterable[ManifestEffect]) -> Iterator[str]:
    for item in items:
        paths = [c.path for c in item.changes] or [item.action.value]
        yield from (_field_key(item, path) for path in paths)


def _field_key(item: ManifestEffect, path: str) -> str:
    return f"{item.kind} {item.name} {path}"
