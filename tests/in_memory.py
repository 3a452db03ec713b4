"""Runs a command with its temporary files in memory: `python -m tests.in_memory COMMAND…`.

Databases, clusters and repositories of tests are many small files, which soon are removed. On a
disk, a database of PostgreSQL costs ten times the CPU time. Where memory is scarce, or programs in
it may not be run, and where TMPDIR is set, files stay where they are.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED = 6 << 30
"""Bytes; a run takes less than a third of them."""


def has_room(folder: Path, needed: int = NEEDED) -> bool:
    """Whether temporary files may be put there."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    runs_programs = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return runs_programs and min(shutil.disk_usage(folder).free, _free_memory()) >= needed


def _free_memory() -> int:
    found = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()
    return int(found[0]) << 10 if found else 0


def run(command: list[str]) -> int:
    """Runs it; returns its exit code. It ends by the signals that end this process."""
    if "TMPDIR" in os.environ or not has_room(MEMORY):
        os.execvp(command[0], command)
    # Ctrl-C reaches the command, too; a handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGINT, lambda *_: None)
    # A server that is about to end may still write into it.
    with tempfile.TemporaryDirectory(
        prefix="towline-tests-", dir=MEMORY, ignore_cleanup_errors=True
    ) as folder:
        # Servers that run as another user find their files in it.
        Path(folder).chmod(0o755)
        return _wait(command, os.environ | {"TMPDIR": folder})


def _wait(command: list[str], env: dict[str, str]) -> int:
    process: subprocess.Popen[bytes] | None = None
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True
        if process is not None:
            process.terminate()

    signal.signal(signal.SIGTERM, end)
    process = subprocess.Popen(command, env=env)
    if is_ended:
        process.terminate()
    return process.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
