"""Measures how much of the control plane's code its own tests reach, in a run of all tests.

MEASURED names the folders of these tests. Imports count, too: the first worker of pytest-xdist
measures them for all. What is measured takes nearly twice the time.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Self

import pytest
from coverage import Coverage

VARIABLE = "MEASURED"


class MeasuredTests:
    """The plugin: measures the imports until the first test, and then each test of the folders."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._coverage = Coverage(data_suffix=True)
        self._running = False

    @classmethod
    def of_environment(cls) -> Self | None:
        """A measurement, if the run asks for one, started where it measures imports."""
        folders = [Path(one).resolve() for one in os.environ.get(VARIABLE, "").split()]
        if not folders:
            return None
        measured = cls(folders)
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
            measured.start()
        return measured

    def start(self) -> None:
        self._coverage.start()
        self._running = True

    def stop(self) -> None:
        if self._running:
            self._coverage.stop()
        self._running = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        self.stop()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures a test with its fixtures."""
        if not self._is_measured(item.path):
            return (yield)
        self.start()
        try:
            return (yield)
        finally:
            self.stop()

    def pytest_unconfigure(self) -> None:
        self.stop()
        self._coverage.save()

    def _is_measured(self, path: Path) -> bool:
        return any(path.is_relative_to(one) for one in self._folders)
