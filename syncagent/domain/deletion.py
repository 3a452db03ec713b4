"""Which deletions a person must agree to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from syncagent.domain.directives import Directives, Leave
from syncagent.domain.objects import ObjectKey, ObjectRef

SMALLEST_BUDGET = 10
_SHARE = 0.3
# With these goes data, or all that is within.
_PRECIOUS = {
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Namespace"),
    ("apps", "StatefulSet"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object that is to be deleted, and what it says of that itself."""

    ref: ObjectRef
    directives: Directives


def budget(owned: int, given: int = 0) -> int:
    """How many of `owned` objects may be deleted in one go without a word; `given` overrides."""
    return given or max(SMALLEST_BUDGET, int(owned * _SHARE))


def awaiting(
    candidates: Sequence[Candidate], confirmed: Collection[ObjectKey], most: int
) -> list[ObjectRef]:
    """Those that wait for a person: precious ones, those that ask for it, all if too many.

    They go once they are confirmed, or once they themselves say so. Who confirms some of them has
    seen them all: what is left out stays, however few these are.
    """
    open_ones = [
        one
        for one in candidates
        if one.ref.key not in confirmed and one.directives.prune != Leave.AGREED
    ]
    if confirmed or len(open_ones) > most:
        return [one.ref for one in open_ones]
    return [one.ref for one in open_ones if needs_word(one)]


def awaiting_removal(
    candidates: Sequence[Candidate], confirmed: Collection[ObjectKey]
) -> list[ObjectRef]:
    """Those of a service that is removed which still wait: precious ones, and who asks for it.

    They go once they are confirmed, or once they themselves say so.
    """
    return [
        one.ref
        for one in candidates
        if one.ref.key not in confirmed
        and (
            one.directives.delete == Leave.CONFIRM
            or is_precious(one.ref)
            and one.directives.delete != Leave.AGREED
        )
    ]


def is_precious(ref: ObjectRef) -> bool:
    """Whether data, or all that is within, goes with an object."""
    return (ref.group, ref.kind) in _PRECIOUS


def needs_word(one: Candidate) -> bool:
    """Whether this object is never deleted without a person's word."""
    return is_precious(one.ref) or one.directives.prune == Leave.CONFIRM
