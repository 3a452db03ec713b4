"""Names the test that leaves a socket open.

A server that a test closes keeps its accepted connections. Without an owner, they live until some
later test collects garbage. So the watch compares the sockets before and after each test, and
collects garbage if there are new ones.
"""

import gc
import os
import stat
import warnings
from collections.abc import Generator

import pytest


def open_sockets() -> frozenset[int]:
    """The inodes of all sockets of this process."""
    found = set()
    for name in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            found.add(status.st_ino)
    return frozenset(found)


class SocketWatch:
    """Fails a test after which garbage holds a socket. Fixtures with a wider scope may hold one."""

    def __init__(self) -> None:
        self._before: frozenset[int] = frozenset()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._before = open_sockets()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None]:
        yield
        if open_sockets() <= self._before:
            return
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always")
            gc.collect()
        if unclosed:
            pytest.fail("\n".join(str(warning.message) for warning in unclosed), pytrace=False)
