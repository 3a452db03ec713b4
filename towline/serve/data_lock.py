"""One control plane for each data directory with an embedded store."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.errors import Conflict

_FILE = "serve.lock"


@contextmanager
def locked_directory(data: Path) -> Generator[None]:
    """Reserves the directory for this process; the system frees it however the process ends.

    Conflict: another control plane runs on it. OSError: the file system has no locks.
    """
    with (data / _FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Conflict(_in_use_message(data, file.read())) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _in_use_message(data: Path, process: str) -> str:
    return (
        f"another control plane runs on {data} (process {process or 'unknown'}): stop it, choose "
        "another directory with --data, or use PostgreSQL to run several"
    )
