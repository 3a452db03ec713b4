"""Selects the pending deletions that `towline services confirm` confirms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.errors import Invalid, NotFound
from towline.cli.services.generated import PendingDeletion

if TYPE_CHECKING:
    from towline.generated_inputs import ObjectAttributes


def select_deletions(
    awaiting: Sequence[PendingDeletion], things: Sequence[str]
) -> list[PendingDeletion]:
    """Returns the named deletions, each once; without names, all of them.

    NotFound: no deletion, or not the named one, needs confirmation. Invalid: a malformed or
    ambiguous name.
    """
    if not awaiting:
        raise NotFound("no deletion needs confirmation")
    found = [_find_deletion(awaiting, text) for text in things] or list(awaiting)
    return [deletion for place, deletion in enumerate(found) if deletion not in found[:place]]


def name_of(deletion: PendingDeletion) -> str:
    """Name of an object in the form commands accept: `Namespace/shop`, `StatefulSet/shop/db`."""
    return "/".join(
        part for part in (deletion["kind"], deletion["namespace"], deletion["name"]) if part
    )


def attributes_of(deletion: PendingDeletion) -> "ObjectAttributes":
    """Attributes of an object for the API."""
    return {
        "kind": deletion["kind"],
        "name": deletion["name"],
        "group": deletion["group"],
        "namespace": deletion["namespace"],
    }


def _find_deletion(awaiting: Sequence[PendingDeletion], deletion_name: str) -> PendingDeletion:
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


def _kinds(deletion: PendingDeletion) -> tuple[str, str]:
    kind = deletion["kind"].lower()
    return kind, f"{kind}.{deletion['group'] or ''}"
