"""Temporary files of a test run are in memory where there is enough of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_memory import MEMORY, has_room

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-m", "tests.in_memory"]
SHOWN = "import tempfile; print(tempfile.gettempdir()); raise SystemExit(3)"
WAITS = "import signal, tempfile; print(tempfile.gettempdir(), flush=True); signal.pause()"
OTHERS = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
needs_memory = pytest.mark.skipif(
    not has_room(MEMORY), reason="platform: needs a file system in memory with some GB"
)


@needs_memory
def test_files_are_in_memory_until_the_command_ends() -> None:
    """Its exit code is that of the whole."""
    done = subprocess.run(
        [*RUN, sys.executable, "-c", SHOWN], cwd=ROOT, env=OTHERS, capture_output=True, text=True
    )
    folder = Path(done.stdout.strip())
    assert (done.returncode, folder.parent, folder.exists()) == (3, MEMORY, False)


@needs_memory
def test_a_signal_ends_the_command_and_removes_its_files() -> None:
    command = [*RUN, sys.executable, "-c", WAITS]
    with subprocess.Popen(
        command, cwd=ROOT, env=OTHERS, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(signal.SIGTERM)
    assert process.returncode != 0
    assert not folder.exists()


def test_a_chosen_folder_is_kept(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, sys.executable, "-c", SHOWN],
        cwd=ROOT,
        env=OTHERS | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (3, str(tmp_path))


def test_scarce_memory_is_left_alone(tmp_path: Path) -> None:
    assert not has_room(tmp_path, needed=1 << 62)
    assert not has_room(tmp_path / "missing", needed=0)
    assert has_room(tmp_path, needed=0)
