"""Deletions that need a person's confirmation."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from syncagent.domain.directives import Directives, Leave
from syncagent.domain.objects import ObjectKey, ObjectRef

SMALLEST_BUDGET = 10
_SHARE = 0.3
# Deleting these also deletes data, or all objects inside.
_PRECIOUS = {
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Namespace"),
    ("apps", "StatefulSet"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object to delete, with its own directives."""

    ref: ObjectRef
    directives: Directives


def budget(owned: int, given: int = 0) -> int:
    """Maximum number of `owned` objects to delete at once without confirmation; `given` overrides
    it.
    """
    return given or max(SMALLEST_BUDGET, int(owned * _SHARE))


def awaiting(
    candidates: Sequence[Candidate], confirmed: Collection[ObjectKey], most: int
) -> list[ObjectRef]:
    """Lists the deletions that wait for confirmation.
    These are protected objects, objects whose annotation asks for it, and all objects if there are
    too many. They are deleted once confirmed, or once their own annotations permit it. A
    confirmation of some of them covers the whole list: unconfirmed ones stay, however few they are.
    """
    open_ones = [
        candidate
        for candidate in candidates
        if candidate.ref.key not in confirmed and candidate.directives.prune != Leave.AGREED
    ]
    if confirmed or len(open_ones) > most:
        return [candidate.ref for candidate in open_ones]
    return [candidate.ref for candidate in open_ones if needs_word(candidate)]


def awaiting_removal(
    candidates: Sequence[Candidate], confirmed: Collection[ObjectKey]
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
            candidate.directives.delete == Leave.CONFIRM
            or is_precious(candidate.ref)
            and candidate.directives.delete != Leave.AGREED
        )
    ]


def is_precious(ref: ObjectRef) -> bool:
    """Reports whether deleting an object also deletes data or all objects inside."""
    return (ref.group, ref.kind) in _PRECIOUS


def needs_word(candidate: Candidate) -> bool:
    """Reports whether this object always needs a person's confirmation."""
    return is_precious(candidate.ref) or candidate.directives.prune == Leave.CONFIRM
