"""Rights that were split: roles that exist keep what they had."""

from importlib import import_module

import pytest

BUDGETS = import_module("controlplane.store.migrations.versions.0025_budgets")


@pytest.mark.parametrize(
    ("verbs", "kept"),
    [
        (["read", "approve"], ["read", "approve", "pause", "resume"]),
        (["approve", "pause"], ["approve", "pause", "resume"]),
        (["read", "skip"], ["read", "skip"]),
        ([], []),
    ],
)
def test_who_might_approve_may_still_pause_and_resume(verbs: list[str], kept: list[str]) -> None:
    assert BUDGETS._kept({"verbs": verbs, "kinds": ["pipeline"]})["verbs"] == kept
