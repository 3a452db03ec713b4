"""A git server in a process of its own, as a real one is: it shares no interpreter with us."""

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from towline.demo.gitserver import GitServer


@contextmanager
def git_server() -> Generator[GitServer]:
    """What makes repositories that the other process serves."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.gitstand.apart", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            line = process.stdout.readline() if process.stdout else b""
            yield GitServer(Path(folder), port=int(line))
            process.communicate()


def main(folder: Path) -> None:
    """Serve until the input ends."""
    with GitServer(folder) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
