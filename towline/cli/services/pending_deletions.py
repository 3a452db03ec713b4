"""Selects the pending deletions that `towline services confirm` confirms."""

from collections.abc import Sequence

from core.errors import NotFound
from towline.cli.services.generated import PendingDeletion
from towline.cli.services.object_names import find_object, name_of


def select_deletions(
    awaiting: Sequence[PendingDeletion], names: Sequence[str]
) -> list[PendingDeletion]:
    """Returns the named deletions, each once; without names, all of them.

    NotFound: no deletion, or not the named one, needs confirmation. Invalid: a malformed or
    ambiguous name.
    """
    if not awaiting:
        raise NotFound("no deletion needs confirmation")
    selected = [_find_deletion(awaiting, name) for name in names] or list(awaiting)
    return [deletion for index, deletion in enumerate(selected) if deletion not in selected[:index]]


def _find_deletion(awaiting: Sequence[PendingDeletion], name: str) -> PendingDeletion:
    deletion = find_object(awaiting, name)
    if deletion is None:
        waiting = ", ".join(name_of(pending) for pending in awaiting[:5])
        raise NotFound(f"deletion of {name} does not need confirmation; pending: {waiting}")
    return deletion
