"""Terminal sessions kept by policy: as files, and as real kubectl has them."""

import asyncio
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.errors import NotFound, Unavailable
from core.identity import ClusterId
from proxy.domain.access import RecordingPolicy
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import RecordingLimits
from proxy.domain.terminal import TerminalSession
from proxy.recording.files import WRITE_SECONDS, FileRecorder
from tests.fakes.clock import FakeClock, settle
from tests.integration.proxy.conftest import Kubectl
from tests.integration.proxy.stack import Stack, eventually

SESSION = TerminalSession("create pods/exec a/b", spdy=False, keep_input=False)
HELLO = b"\x82\x06\x01hello"


def record(number: int = 0) -> RequestRecord:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    made = RequestRecord(f"{number:032x}", at, "", "", "dev", "GET", upgrade=True)
    made.cluster_id = ClusterId("c1")
    return made


async def test_a_recording_is_private_and_read_in_parts(tmp_path: Path) -> None:
    """Only its owner reads the file; the session is ongoing until it is closed."""
    recorder = FileRecorder(tmp_path / "kept", RecordingLimits(), FakeClock())
    tape = await recorder.begin(record(), SESSION)
    tape.from_cluster(HELLO)
    await recorder.stop()
    (path,) = (tmp_path / "kept").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    part = await recorder.read(record().id, 0, 10)
    assert (part.data, part.next, part.ongoing) == (b'{"version"', 10, True)
    tape.close()
    await recorder.stop()
    rest = await recorder.read(record().id, 10, 1 << 20)
    assert (rest.next, rest.ongoing, rest.cluster_id) == (None, False, "c1")
    lines = (part.data + rest.data).splitlines()
    assert json.loads(lines[0])["towline"]["cluster"] == "dev"
    assert json.loads(lines[1])[1:] == ["o", "hello"]


async def test_the_end_waits_for_lines_that_are_being_written(tmp_path: Path) -> None:
    """A slow disk, here a pipe that nobody reads yet, loses no line."""
    clock = FakeClock()
    recorder = FileRecorder(tmp_path, RecordingLimits(), clock)
    tape = await recorder.begin(record(), SESSION)
    (path,) = tmp_path.iterdir()
    path.unlink()
    os.mkfifo(path)
    recorder.start()
    tape.from_cluster(HELLO)
    await clock.advance(WRITE_SECONDS)
    stop = asyncio.ensure_future(recorder.stop())
    await settle()
    assert not stop.done()
    data = await asyncio.to_thread(path.read_bytes)
    await stop
    assert json.loads(data.splitlines()[1])[1:] == ["o", "hello"]


@pytest.mark.parametrize("id", ["../../etc/passwd", "x", "0" * 31, "f" * 32])
async def test_only_recordings_are_read(tmp_path: Path, id: str) -> None:
    """No other file, whatever the id."""
    recorder = FileRecorder(tmp_path, RecordingLimits(), FakeClock())
    with pytest.raises(NotFound):
        await recorder.read(id, 0, 10)


async def test_the_oldest_make_room(tmp_path: Path) -> None:
    """By age and by what all of them take together; what is being written stays."""
    clock = FakeClock()
    recorder = FileRecorder(tmp_path, RecordingLimits(total_bytes=1000, days=10), clock)
    await recorder.begin(record(9), SESSION)
    ages = {"a": 11, "b": 5, "c": 4, "d": 3}
    for name, days in ages.items():
        path = tmp_path / f"{name}.cast"
        path.write_bytes(b"x" * 400)
        then = (clock.now() - timedelta(days=days)).timestamp()
        os.utime(path, (then, then))
    os.utime(tmp_path / f"{record(9).id}.cast", (0, 0))
    assert await recorder.prune() == 2
    assert sorted(path.stem for path in tmp_path.iterdir()) == [record(9).id, "c", "d"]


async def test_nobody_displaces_the_recordings_of_others(tmp_path: Path) -> None:
    """The user with the most bytes loses the oldest ones first."""
    clock = FakeClock()
    recorder = FileRecorder(tmp_path, RecordingLimits(total_bytes=1000, days=10), clock)
    for number, user in enumerate(["ada", "eve", "eve", "eve", "eve"]):
        path = tmp_path / f"{number}-{user}.cast"
        path.write_bytes(json.dumps({"towline": {"user": user}}).encode().ljust(300, b"\n"))
        then = (clock.now() - timedelta(days=9 - number)).timestamp()
        os.utime(path, (then, then))
    assert await recorder.prune() == 2
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["0-ada", "3-eve", "4-eve"]


async def test_a_session_that_cannot_be_recorded_does_not_begin(tmp_path: Path) -> None:
    """No folder, no session."""
    (tmp_path / "file").write_text("")
    recorder = FileRecorder(tmp_path / "file", RecordingLimits(), FakeClock())
    with pytest.raises(Unavailable):
        await recorder.begin(record(), SESSION)


async def test_kubectl_exec_is_kept(
    stack: Stack, through: Kubectl, box: tuple[str, ...], transport: dict[str, str]
) -> None:
    """Both outputs and what was typed, by WebSocket and by SPDY, and nothing is changed by it."""
    stack.installation.recording = RecordingPolicy.ALL
    script = "cat; echo error >&2; exit 3"
    result = await through(
        "exec", "-i", *box, "--", "sh", "-c", script, stdin=b"typed\n", env=transport
    )
    assert (result.code, result.out) == (3, b"typed\n")
    assert "error" in result.err
    await eventually(lambda: [row for row in stack.installation.closed_rows if row.upgrade])
    (row,) = (row for row in stack.installation.closed_rows if row.upgrade)
    assert row.recorded
    await stack.proxy.stop()
    part = await stack.proxy.recording(row.id, 0, 1 << 20)
    about, *events = (json.loads(line) for line in part.data.splitlines())
    assert about["title"].endswith("/box")
    assert about["command"] == f"sh -c {script}"
    said = {code: "".join(text for _, c, text in events if c == code) for code in "oi"}
    assert said["i"] == "typed\n"
    assert sorted(said["o"].splitlines()) == ["error", "typed"]
