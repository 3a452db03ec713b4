"""Failures of an apply, in the words of the API server and with what to do about them."""

import pytest

from core.spec.objects import ObjectRef
from syncagent.ports import RequestRefused
from syncagent.reconcile.applier import problem_of

REF = ObjectRef("", "v1", "ConfigMap", "shop", "settings")


@pytest.mark.parametrize(
    ("message", "status", "reason", "advice"),
    [
        ('namespaces "shop" not found', 404, "NotFound", "create it first"),
        ('Apply failed with 1 conflict: conflict with "hpa"', 409, "Conflict", "failOnConflict"),
    ],
)
def test_a_failure_with_a_known_remedy_says_it(
    message: str, status: int, reason: str, advice: str
) -> None:
    problem = problem_of(RequestRefused(message, status=status, reason=reason), REF)
    assert problem.message.startswith(f"{message}; ")
    assert advice in problem.message


@pytest.mark.parametrize("message", ['configmaps "settings" not found', "object was modified"])
def test_a_failure_without_a_known_remedy_stays_as_it_is(message: str) -> None:
    problem = problem_of(RequestRefused(message, status=404, reason="NotFound"), REF)
    assert (problem.message, problem.ref) == (message, REF)
