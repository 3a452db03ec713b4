"""Deletions that need a person's confirmation."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.spec.objects import ObjectKey, ObjectRef
from syncagent.domain.directives import DeletionPolicy, Directives

MIN_BUDGET = 10
_SHARE = 0.3
# Deleting these also deletes data, or all objects inside.
_PROTECTED = {
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Namespace"),
    ("apps", "StatefulSet"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
}


@dataclass(frozen=True, slots=True)
class DeletionCandidate:
    """An object to delete, with its own directives."""

    ref: ObjectRef
    directives: Directives


def budget(owned: int, given: int) -> int:
    """Maximum number of `owned` objects to delete at once without confirmation; `given`
    overrides it unless it is 0.
    """
    return given or max(MIN_BUDGET, int(owned * _SHARE))


def unconfirmed_deletions(
    candidates: Sequence[DeletionCandidate], confirmed: Collection[ObjectKey], most: int
) -> list[ObjectRef]:
    """Lists the deletions that wait for confirmation.
    These are protected objects, objects whose annotation asks for it, and all objects if there are
    too many. They are deleted once confirmed, or once their own annotations permit it. A
    confirmation of some of them covers the whole list: unconfirmed ones stay, however few they are.
    """
    open_ones = [
        candidate
        for candidate in candidates
        if candidate.ref.key not in confirmed
        and candidate.directives.prune != DeletionPolicy.AGREED
    ]
    if confirmed or len(open_ones) > most:
        return [candidate.ref for candidate in open_ones]
    return [candidate.ref for candidate in open_ones if _needs_confirmation(candidate)]


def unconfirmed_removals(
    candidates: Sequence[DeletionCandidate], confirmed: Collection[ObjectKey]
) -> list[ObjectRef]:
    """Lists the deletions of a removed service that wait for confirmation.
    These are protected objects and objects whose annotation asks for it. They are deleted once
    confirmed, or once their own annotations permit it.
    """
    return [
        candidate.ref
        for candidate in candidates
        if candidate.ref.key not in confirmed
        and (
            candidate.directives.delete == DeletionPolicy.CONFIRM
            or is_protected(candidate.ref)
            and candidate.directives.delete != DeletionPolicy.AGREED
        )
    ]


def is_protected(ref: ObjectRef) -> bool:
    """Reports whether deleting an object also deletes data or all objects inside."""
    return (ref.group, ref.kind) in _PROTECTED


def _needs_confirmation(candidate: DeletionCandidate) -> bool:
    """Reports whether this object always needs a person's confirmation."""
    return is_protected(candidate.ref) or candidate.directives.prune == DeletionPolicy.CONFIRM
