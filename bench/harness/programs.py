"""Starts and stops the harness's programs, and reads their CPU time and memory."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def announce(port: int) -> None:
    """Prints that this program is ready, with its port or another number.

    Afterwards the program ends with its parent process, even if that is killed.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    print(f"ready {port}", flush=True)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


class Program:
    """Runs a module of this package in its own process."""

    def __init__(self, module: str, *args: object, stdin: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.harness.{module}", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(stdin)
        self._process.stdin.close()
        self.pid = self._process.pid

    def wait_ready(self) -> int:
        """Returns the announced number. RuntimeError: the program ended instead."""
        assert self._process.stdout is not None
        word, _, number = self._process.stdout.readline().partition(" ")
        if word != "ready":
            raise RuntimeError(f"{self._process.args} has ended")
        return int(number)

    def stop(self) -> None:
        """Kills the program."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def running(module: str, *args: object, stdin: str = "") -> Generator[tuple[Program, int]]:
    """Starts a program; yields it with its announced number; kills it at the end."""
    program = Program(module, *args, stdin=stdin)
    try:
        yield program, program.wait_ready()
    finally:
        program.stop()


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system CPU time of processes, from proc(5)."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident_bytes(pid: int) -> int:
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def child_pids(pid: int) -> list[int]:
    """Processes that the threads of a process have started, from proc(5)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in threads for child in (task / "children").read_text().split()]


def descriptors(pid: int) -> int:
    """Number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))
