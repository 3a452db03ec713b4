"""Selects the pending deletions that `towline services confirm` confirms."""

from collections.abc import Sequence

from core.errors import Invalid, NotFound
from towline.cli.session import Json


def select_deletions(awaiting: Sequence[Json], things: Sequence[str]) -> list[Json]:
    """Returns the named deletions, each once; without names, all of them.

    NotFound: no deletion, or not the named one, needs confirmation. Invalid: a malformed or
    ambiguous name.
    """
    if not awaiting:
        raise NotFound("no deletion needs confirmation")
    found = [_find_deletion(awaiting, text) for text in things] or list(awaiting)
    return [deletion for place, deletion in enumerate(found) if deletion not in found[:place]]


def name_of(deletion_name: Json) -> str:
    """Name of an object in the form commands accept: `Namespace/shop`, `StatefulSet/shop/db`."""
    return "/".join(
        part
        for part in (deletion_name["kind"], deletion_name["namespace"], deletion_name["name"])
        if part
    )


def attributes_of(deletion_name: Json) -> Json:
    """Attributes of an object for the API."""
    return {key: deletion_name[key] for key in ("kind", "name", "group", "namespace")}


def _find_deletion(awaiting: Sequence[Json], deletion_name: str) -> Json:
    """Finds one deletion; the kind ignores case and may have a group: `job.batch`."""
    parts = deletion_name.split("/")
    if len(parts) not in (2, 3):
        raise Invalid(f"{deletion_name!r} is not kind/name or kind/namespace/name")
    kind, *place, name = parts
    meant = [
        deletion
        for deletion in awaiting
        if kind.lower() in _kinds(deletion)
        and name == deletion["name"]
        and place in ([], [deletion["namespace"]])
    ]
    if not meant:
        waiting = ", ".join(name_of(deletion) for deletion in awaiting[:5])
        raise NotFound(
            f"deletion of {deletion_name} does not need confirmation; pending: {waiting}"
        )
    if len(meant) > 1:
        raise Invalid(f"several objects match {deletion_name}; use kind.group/namespace/name")
    return meant[0]


def _kinds(deletion: Json) -> tuple[str, str]:
    kind = deletion["kind"].lower()
    return kind, f"{kind}.{deletion['group'] or ''}"
