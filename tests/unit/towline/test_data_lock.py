"""The reservation of a data directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import Conflict
from towline.serve.data_lock import locked_directory

_HOLD = """
import sys
from pathlib import Path
from towline.serve.data_lock import locked_directory
with locked_directory(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "serve.lock").write_text("an earlier process with a longer number")
    with locked_directory(tmp_path), pytest.raises(Conflict) as refusal, locked_directory(tmp_path):
        pass
    assert f"another control plane runs on {tmp_path} (process {os.getpid()})" in str(refusal.value)
    with locked_directory(tmp_path):
        pass


def test_a_directory_is_free_after_a_process_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        with pytest.raises(Conflict, match=f"process {holder.pid}"), locked_directory(tmp_path):
            pass
        holder.kill()
    with locked_directory(tmp_path):
        pass
