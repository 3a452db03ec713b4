"""An interactive program on a terminal of its own."""

import os
import pty
import re
import select
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

_SECONDS = 20
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?=>]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")


class Terminal:
    """Keyboard and screen of a program."""

    def __init__(self, descriptor: int, pid: int) -> None:
        self._descriptor = descriptor
        self.pid = pid
        self._seen = b""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def read_until(self, text: str) -> None:
        """Reads the screen until it shows a text, which has not been read before."""
        while text.encode() not in (shown := _ESCAPES.sub(b"", self._seen)):
            assert select.select([self._descriptor], [], [], _SECONDS)[0], shown.decode()
            try:
                self._seen += os.read(self._descriptor, 65_536)
            except OSError:
                raise AssertionError(shown.decode()) from None
        # What came behind it in the same read is yet to be looked for.
        self._seen = shown.partition(text.encode())[2]


@contextmanager
def pseudo_terminal(
    argv: Sequence[str], environment: Mapping[str, str]
) -> Generator[Terminal, None, None]:
    """Starts a program on a new terminal, and ends it."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(ours, process.pid)
            finally:
                process.kill()
    finally:
        os.close(ours)
