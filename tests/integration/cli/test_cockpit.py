"""`towline ui` in a real terminal, against a real control plane."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.integration.cli.conftest import TOWLINE, Installation
from towline.cli.shell.polling import poll_until

SOURCE = (
    *("--cluster", "cockpit", "--namespace", "shop"),
    *("--repo", "https://git.example.org/shop.git", "--folder", "dev"),
)
_ROWS, _COLUMNS = 40, 140


class TerminalProgram:
    """A program with a terminal of its own, and all that it has written there."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def shows(self, text: str) -> None:
        """Waits until the program writes a text, and forgets all until then."""
        poll_until(self.written, lambda written: text in written, 30, every=0.05)
        self._written.clear()

    def written(self) -> str:
        return self._written.decode(errors="replace")

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def close(self) -> None:
        """Ends the program, if it still runs, and its terminal."""
        self.process.kill()
        self.process.wait(20)
        self._reader.join(20)
        os.close(self._terminal)

    def _read(self) -> None:
        while True:
            try:
                found = os.read(self._terminal, 65_536)
            except OSError:
                # The last program has closed the terminal.
                return
            self._written += found


@contextmanager
def terminal(installation: Installation, *words: str) -> Generator[TerminalProgram]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    environment = {**installation.environment, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [TOWLINE, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    program = TerminalProgram(process, ours)
    try:
        yield program
    finally:
        program.close()


def test_the_cockpit_shows_services_as_they_come(installation: Installation) -> None:
    installation.run("clusters", "create", "cockpit", "--show-token")
    with terminal(installation, "ui", "cockpit/") as program:
        program.shows("filter: cockpit/")
        installation.run(
            *"services create late --cluster cockpit --namespace shop".split(), *SOURCE
        )
        program.shows("cockpit/late")
        program.press("\r")
        program.shows("MESSAGE")
        program.press("q")
        program.shows("filter: cockpit/")
        program.press("q")
        assert program.process.wait(20) == 0
    installation.run("clusters", "detach", "cockpit", "--yes")


def test_the_cockpit_needs_a_terminal(installation: Installation) -> None:
    assert "needs a terminal" in installation.run("ui", code=2).stderr
