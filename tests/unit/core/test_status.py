"""Problems of services: which ones last until a user changes something."""

import pytest

from core.spec.status import Problem


@pytest.mark.parametrize(
    ("source", "reason", "message", "lasts"),
    [
        ("render", "NOT_FOUND", "no such folder", True),
        ("render", "INVALID", "web.yaml line 3: no kind", True),
        ("render", "ACCESS_DENIED", "refused (401)", True),
        ("render", "UNAVAILABLE", "no answer", False),
        ("render", "LIMIT", "too many renders", False),
        ("render", "Forbidden", "not a code of a render", False),
        ("render", "", "unknown reason", False),
        ("apply", "Forbidden", "exceeded quota", True),
        ("apply", "Forbidden", "namespace shop is being terminated", False),
        ("apply", "NOT_FOUND", "not a reason of a cluster", False),
        ("sync", "CrashLoopBackOff", "exit code 1", False),
        ("dependencies", "", "waiting until these services are healthy: db", False),
    ],
)
def test_a_problem_lasts_by_its_reason(source: str, reason: str, message: str, lasts: bool) -> None:
    assert Problem(message, source=source, reason=reason).is_lasting is lasts
