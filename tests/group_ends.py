"""Ends what a group of tests shares behind its last test."""

import os
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

BROWSER = "chromium"
"""The fixture with the browser, whose driver occupies the event loop that other tests need."""


class GroupEnds:
    """Ends clusters and the browser behind the last test of a group, and starts them again if need
    be. Until the run ends, a cluster would cost a tenth of a core at rest.

    This is a plugin, because pytest calls no hook of a conftest below the root folder for fixtures
    of the session.
    """

    def __init__(self) -> None:
        self._ends: dict[str, Callable[[], None]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: Any
    ) -> Generator[None, object, object]:
        """Notes how clusters and the browser end, and what is made from them once in a run."""
        made = yield
        needed = {fixturedef.argname, *fixturedef.argnames}
        if fixturedef.scope == "session" and needed & {"kubernetes", BROWSER, *self._ends}:
            self._ends[fixturedef.argname] = partial(fixturedef.finish, request)
        return made

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None]:
        """Ends them between two groups: clusters on a worker of pytest-xdist, a browser always."""
        yield
        may_end = "PYTEST_XDIST_WORKER" in os.environ or BROWSER in self._ends
        if may_end and _group(item) != _group(nextitem):
            while self._ends:
                self._ends.popitem()[1]()


def _group(item: pytest.Item | None) -> object:
    marker = item and item.get_closest_marker("xdist_group")
    return marker and marker.args
