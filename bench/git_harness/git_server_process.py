"""Git server in its own process, so that it shares no interpreter with the measured code."""

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from towline.demo.git_server import GitServer


@contextmanager
def git_server() -> Generator[GitServer]:
    """Starts the process; yields a server object for creating repositories."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.git_harness.git_server_process", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            line = process.stdout.readline() if process.stdout else b""
            yield GitServer(Path(folder), port=int(line))
            process.communicate()


def main(folder: Path) -> None:
    """Serves until the input ends."""
    with GitServer(folder) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
