"""Programs of a group end with it, and with the process that owns it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

OWNER = """
import sys, time
from pathlib import Path
from towline.demo.process_group import ProcessGroup
group = ProcessGroup()
programs = [group.spawn(["sleep", "600"], log=Path(sys.argv[1])) for _ in range(2)]
FORK
print(*(program.pid for program in programs), flush=True)
time.sleep(600)
"""
# A worker that keeps everything of its owner open, as multiprocessing's do.
FORK = "import os\nif os.fork() == 0: os.setsid(); time.sleep(20); os._exit(0)"


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    """Both streams, after what is there already."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with ProcessGroup() as group:
        assert group.spawn(["sh", "-c", "echo out; echo err >&2"], log=log).wait() == 0
    assert log.read_text() == "before\nout\nerr\n"


def test_stop_ends_children_of_children(tmp_path: Path) -> None:
    """A program that a program started belongs to the group."""
    log = tmp_path / "log"
    with ProcessGroup() as group:
        group.spawn(["sh", "-c", "sleep 600 & echo $!; wait"], log=log)
        eventually(lambda: log.read_text().strip() != "")
        grandchild = int(log.read_text())
        assert is_running(grandchild)
    eventually(lambda: not is_running(grandchild))


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    """The second stop finds nothing to do."""
    group = ProcessGroup()
    group.spawn(["sleep", "600"], log=tmp_path / "log")
    group.stop()
    group.stop()


@pytest.mark.parametrize("fork", ["", FORK], ids=["alone", "with a forked worker"])
def test_a_killed_owner_takes_its_programs_along(tmp_path: Path, fork: str) -> None:
    """SIGKILL gives no chance to clean up; the group ends all the same."""
    command = [sys.executable, "-c", OWNER.replace("FORK", fork), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        programs = [int(word) for word in owner.stdout.readline().split()]
        assert all(map(is_running, programs))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        eventually(lambda: not any(map(is_running, programs)))


def test_free_ports_differ_and_are_free() -> None:
    """Asked for several, none comes twice."""
    assert len(set(free_ports(20))) == 20


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen, 15 s at most."""
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
