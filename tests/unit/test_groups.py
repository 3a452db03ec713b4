"""Tests of one group stay with one worker."""

import pytest


@pytest.mark.xdist_group("kept")
def test_a_group_stands_where_the_scheduler_looks(request: pytest.FixtureRequest) -> None:
    """Else what a module starts for its tests is started by every worker, without a word."""
    by_groups = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@kept") == by_groups
