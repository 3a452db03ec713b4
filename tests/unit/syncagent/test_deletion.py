"""Deletions that wait for a person."""

import pytest

from core.spec.objects import ObjectKey, ObjectRef
from syncagent.domain.deletion import (
    DeletionCandidate,
    budget,
    unconfirmed_deletions,
    unconfirmed_removals,
)
from syncagent.domain.directives import ORDINARY, DeletionPolicy, Directives

NOBODY: frozenset[ObjectKey] = frozenset()
CLAIM = ObjectRef("", "v1", "PersistentVolumeClaim", "prod", "data")


def config(name: str) -> ObjectRef:
    return ObjectRef("", "v1", "ConfigMap", "prod", name)


def ordinary(count: int) -> list[DeletionCandidate]:
    return [DeletionCandidate(config(f"c{number}"), ORDINARY) for number in range(count)]


@pytest.mark.parametrize(
    ("owned", "given", "most"), [(1, 0, 10), (33, 0, 10), (40, 0, 12), (400, 5, 5), (4, 50, 50)]
)
def test_the_budget_is_a_share_of_the_service_unless_it_is_given(
    owned: int, given: int, most: int
) -> None:
    assert budget(owned, given) == most


def test_one_deletion_beyond_the_budget_makes_all_of_them_wait() -> None:
    assert unconfirmed_deletions(ordinary(10), NOBODY, 10) == []
    assert unconfirmed_deletions(ordinary(11), NOBODY, 10) == [c.ref for c in ordinary(11)]


def test_a_confirmation_of_some_covers_no_others() -> None:
    """However few are left."""
    confirmed = frozenset(c.ref.key for c in ordinary(2))
    assert unconfirmed_deletions(ordinary(3), confirmed, 10) == [config("c2")]


@pytest.mark.parametrize(
    ("ref", "policy", "waits"),
    [
        (CLAIM, DeletionPolicy.FREE, True),
        (CLAIM, DeletionPolicy.CONFIRM, True),
        (CLAIM, DeletionPolicy.AGREED, False),
        (config("a"), DeletionPolicy.FREE, False),
        (config("a"), DeletionPolicy.CONFIRM, True),
        (config("a"), DeletionPolicy.AGREED, False),
    ],
)
def test_protected_objects_and_those_that_ask_for_it_wait_until_they_are_confirmed(
    ref: ObjectRef, policy: DeletionPolicy, waits: bool
) -> None:
    """In a prune by the policy for pruning, in a removal by that for removals."""
    expected = [ref] if waits else []
    pruned = [DeletionCandidate(ref, Directives(prune=policy))]
    removed = [DeletionCandidate(ref, Directives(delete=policy))]
    assert unconfirmed_deletions(pruned, NOBODY, 10) == expected
    assert unconfirmed_removals(removed, NOBODY) == expected
    assert unconfirmed_deletions(pruned, {ref.key}, 10) == []
    assert unconfirmed_removals(removed, {ref.key}) == []
    assert unconfirmed_removals(pruned, NOBODY) == ([ref] if ref is CLAIM else [])
