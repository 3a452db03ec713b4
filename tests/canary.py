"""Canaries: secret values that tests give to the product, and that must come out nowhere.

A canary is a text like `canary-9f31-of-the-store`, or that in base64. Whatever a test says (its
output, its log, the answers of the API) is looked through after each test; its temporary files are,
with disks of agents and what is packed in archives, where the test's file has canaries; so is all
that goes out by HTTP and WebSocket (console, SCIM, hooks, subscriptions), and what notifications,
gates and traces send. What a test itself writes down belongs into a file whose name begins with
`given`.
"""

import base64
import gzip
import re
import sys
import tarfile
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CANARY = re.compile(rb"canary-[0-9a-f]{4}-[a-z]+")
_MARK = b"canary-"
_MOST_BYTES = 64 << 20
_GIVEN = "given"
_SENDS = (
    ("controlplane.platform.outbound.outbound", "GuardedSender", "post"),
    ("controlplane.platform.outbound.outbound", "GuardedSender", "request"),
    ("controlplane.platform.outbound.outbound", "GuardedSender", "syslog"),
    ("controlplane.reports.telemetry", "OtlpSpans", "export"),
)
"""Methods that send data to others: notifications, questions of gates, traces."""


_LONGEST = 128
Message = MutableMapping[str, Any]


def _encoded_marks() -> tuple[tuple[bytes, int], ...]:
    """How the mark begins in base64, wherever it stands, and how far it is into its four letters.

    Only those letters count that nothing before or after the mark has a part in.
    """
    found = []
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + _MARK)
        first, last = -(-shift * 8 // 6), (shift + len(_MARK)) * 8 // 6
        found.append((whole[first:last], first))
    return tuple(found)


_ENCODED = _encoded_marks()


def canaries_in(data: bytes) -> list[str]:
    """The canaries in some bytes, in the clear or in base64, each once."""
    found = set(CANARY.findall(data)) if _MARK in data else set()
    for mark, into in _ENCODED:
        for one in re.finditer(re.escape(mark), data):
            piece = data[max(one.start() - into, 0) :][:_LONGEST]
            found |= set(CANARY.findall(_decoded(piece)))
    return sorted(one.decode() for one in found)


def _decoded(piece: bytes) -> bytes:
    """Decoded base64, as far as it goes."""
    letters = re.match(rb"[A-Za-z0-9+/]*", piece)
    text = letters[0] if letters else b""
    return base64.b64decode(text[: len(text) // 4 * 4])


def leaking_files(folder: Path) -> Iterator[str]:
    """Leaks in the files below a folder, with their places."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.name.startswith(_GIVEN):
            continue
        if path.stat().st_size <= _MOST_BYTES:
            found = [one for data in _contents(path) for one in canaries_in(data)]
            yield from (f"{one} in the file {path.relative_to(folder)}" for one in found)


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file; of an archive, those of what is in it."""
    if not path.name.endswith((".tar.gz", ".tgz")):
        yield path.read_bytes()
        return
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                yield file.read(_MOST_BYTES)


@cache
def _has_canaries(path: Path) -> bool:
    return bool(canaries_in(path.read_bytes()))


class CanaryWatch:
    """The plugin: a test in whose traces a canary is found has failed."""

    def __init__(self) -> None:
        self._leaks: list[str] = []

    def pytest_collection_finish(self) -> None:
        """Look at every answer of the API that a test asks for in process, and all over HTTP."""
        module = sys.modules.get("controlplane.api.schema")
        if module is not None:
            self._watch(module.Schema)
        module = sys.modules.get("controlplane.http.app")
        if module is not None:
            self._watch_answers(module.SecurityHeaders)
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
            sent_bytes = repr(bodies).encode(errors="replace")
            self._leaks += [f"{one} in what {method} sends" for one in canaries_in(sent_bytes)]
            return await send(own, *given, **named)

        setattr(kind, method, sent)

    def _watch(self, schema: Any) -> None:
        asked = schema.execute

        async def execute(own: Any, *given: Any, **named: Any) -> Any:
            result = await asked(own, *given, **named)
            response = repr((result.data, result.errors)).encode(errors="replace")
            self._leaks += [f"{one} in an answer of the API" for one in canaries_in(response)]
            return result

        schema.execute = execute

    def _watch_answers(self, kind: Any) -> None:
        """Look at every answer of the control plane's listener, whatever room has made it."""
        answered = kind.__call__

        async def called(own: Any, scope: Message, receive: Any, send: Any) -> None:
            answer = _Answer(f"an answer at {scope.get('path')}", send)
            await answered(own, scope, receive, answer.send)
            self._leaks += answer.leaks()

        kind.__call__ = called


class _Answer:
    """Output of one connection: headers, body, messages of a WebSocket."""

    def __init__(self, place: str, send: Callable[[Message], Awaitable[None]]) -> None:
        self._place = place
        self._send = send
        self._packed = False
        self._kept: list[bytes] = []
        self._found: set[str] = set()

    async def send(self, message: Message) -> None:
        """Look at it and hand it on."""
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._packed = headers.get(b"content-encoding") == b"gzip"
            self._found |= set(canaries_in(repr(headers).encode()))
        elif message["type"] == "http.response.body":
            self._take(message.get("body", b""))
        elif message["type"] == "websocket.send":
            self._take(message.get("bytes") or (message.get("text") or "").encode())
        await self._send(message)

    def leaks(self) -> list[str]:
        """Leaks found so far."""
        if self._packed:
            self._found |= set(canaries_in(gzip.decompress(b"".join(self._kept))))
        return [f"{one} in {self._place}" for one in sorted(self._found)]

    def _take(self, data: bytes) -> None:
        """A canary may lie across two pieces."""
        if self._packed:
            self._kept.append(data)
            return
        before = self._kept[-1] if self._kept else b""
        self._kept = [(before + data)[-_LONGEST:]]
        self._found |= set(canaries_in(before + data))
