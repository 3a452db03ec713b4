"""Canaries: secret values that tests give to the product, and that must come out nowhere.

A canary is a text like `canary-9f31-of-the-store`. Whatever a test says (its output, its log, the
answers of the API) is looked through after each test; its temporary files are, where the test's
file has canaries; so is what notifications, gates and traces send. What a test itself writes down
belongs into a file whose name begins with `given`.
"""

import re
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CANARY = re.compile(rb"canary-[0-9a-f]{4}-[a-z]+")
_MARK = b"canary-"
_MOST_BYTES = 64 << 20
_GIVEN = "given"
_SENDS = (
    ("controlplane.notify.outward", "GuardedOutward", "post"),
    ("controlplane.notify.outward", "GuardedOutward", "ask"),
    ("controlplane.notify.outward", "GuardedOutward", "syslog"),
    ("controlplane.telemetry.otlp", "OtlpSpans", "export"),
)
"""What leaves the product for others: notifications, questions of gates, traces."""


def canaries_in(data: bytes) -> list[str]:
    """The canaries in some bytes, each once."""
    return sorted({one.decode() for one in CANARY.findall(data)}) if _MARK in data else []


def leaking_files(folder: Path) -> Iterator[str]:
    """What leaks in the files below a folder, and where."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.name.startswith(_GIVEN):
            continue
        if path.stat().st_size <= _MOST_BYTES:
            found = canaries_in(path.read_bytes())
            yield from (f"{one} in the file {path.relative_to(folder)}" for one in found)


@cache
def _has_canaries(path: Path) -> bool:
    return bool(canaries_in(path.read_bytes()))


class CanaryWatch:
    """The plugin: a test in whose traces a canary is found has failed."""

    def __init__(self) -> None:
        self._leaks: list[str] = []

    def pytest_collection_finish(self) -> None:
        """Look at every answer of the API that a test asks for in process."""
        module = sys.modules.get("controlplane.graphql.schema")
        if module is not None:
            self._watch(module.Schema)
        for place, kind, method in _SENDS:
            module = sys.modules.get(place)
            if module is not None:
                self._watch_sent(getattr(module, kind), method)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Files are looked at before fixtures end: databases with their journals."""
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        if isinstance(folder, Path) and _has_canaries(item.path):
            self._leaks += leaking_files(folder)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        said = "".join(text for _, text in report.sections).encode(errors="replace")
        leaks = self._leaks + [f"{one} in what was said" for one in canaries_in(said)]
        self._leaks = []
        if leaks and report.passed:
            report.outcome = "failed"
            report.longrepr = f"secret values came out: {'; '.join(leaks[:10])}"
        return report

    def _watch_sent(self, kind: Any, method: str) -> None:
        """Look at what a method sends, but for headers, which sign in."""
        send = getattr(kind, method)

        async def sent(own: Any, *given: Any, **named: Any) -> Any:
            bodies = [one for one in (*given, *named.values()) if not isinstance(one, Mapping)]
            told = repr(bodies).encode(errors="replace")
            self._leaks += [f"{one} in what {method} sends" for one in canaries_in(told)]
            return await send(own, *given, **named)

        setattr(kind, method, sent)

    def _watch(self, schema: Any) -> None:
        asked = schema.execute

        async def execute(own: Any, *given: Any, **named: Any) -> Any:
            result = await asked(own, *given, **named)
            told = repr((result.data, result.errors)).encode(errors="replace")
            self._leaks += [f"{one} in an answer of the API" for one in canaries_in(told)]
            return result

        schema.execute = execute
