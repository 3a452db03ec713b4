"""The screen of a program on a terminal of its own, as a user sees it."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.errors import Unavailable

ROWS, COLUMNS = 60, 140
_SECONDS = 40.0
_QUIET_SECONDS = 0.7
"""A program that sends nothing for this time has drawn the whole screen."""
_STEPS = re.compile(
    r"\x1b\[(?P<numbers>[0-9;?>=]*)(?P<verb>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[()][A-Z0-9]|\x1b[=>78cM]"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f])"
    r"|(?P<text>[^\x00-\x1f]+)"
)
# Readers see whole sequences only: the rest waits for its end.
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?>=]*|\][^\x07\x1b]*|[()])?$")


class Picture:
    """Characters of a terminal, without colors; understands what full-screen programs send."""

    def __init__(self) -> None:
        self._cells = [[" "] * COLUMNS for _ in range(ROWS)]
        self._row = self._column = 0
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Lines without spaces at their ends."""
        return ["".join(row).rstrip() for row in self._cells]

    def feed(self, text: str) -> None:
        """Draws output of a program; a sequence may come in parts."""
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        for step in _STEPS.finditer(text.removesuffix(self._rest)):
            if step["verb"]:
                self._obey(step["verb"], step["numbers"])
            elif step["control"]:
                self._control(step["control"])
            for character in step["text"] or "":
                self._write(character)

    def _obey(self, verb: str, numbers: str) -> None:
        given = [int(number) if number.isdigit() else 0 for number in numbers.split(";")]
        first = given[0]
        if verb in "Hf":
            self._move(first - 1 if first else 0, (given[1] if len(given) > 1 else 1) - 1)
        elif verb in "ABCD":
            down, right = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}[verb]
            self._move(self._row + down * (first or 1), self._column + right * (first or 1))
        elif verb == "G":
            self._move(self._row, (first or 1) - 1)
        elif verb == "d":
            self._move((first or 1) - 1, self._column)
        elif verb == "K":
            self._erase(self._row, (0 if first else self._column), COLUMNS)
        elif verb == "J":
            self._erase_screen(whole=first == 2)

    def _erase_screen(self, *, whole: bool) -> None:
        for row in range(0 if whole else self._row, ROWS):
            self._erase(row, self._column if row == self._row and not whole else 0, COLUMNS)

    def _erase(self, row: int, first: int, end: int) -> None:
        self._cells[row][first:end] = [" "] * (end - first)

    def _move(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), ROWS - 1)
        self._column = min(max(column, 0), COLUMNS - 1)

    def _control(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\b":
            self._move(self._row, self._column - 1)
        elif character == "\n":
            if self._row == ROWS - 1:
                self._cells = [*self._cells[1:], [" "] * COLUMNS]
            self._move(self._row + 1, self._column)

    def _write(self, character: str) -> None:
        if self._column >= COLUMNS:
            self._control("\n")
            self._column = 0
        self._cells[self._row][self._column] = character
        self._column += 1


class Screen:
    """Keyboard and picture of a running program."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._picture = Picture()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._terminal, keys.encode())

    def read_until(self, is_shown: Callable[[list[str]], bool]) -> list[str]:
        """Returns the lines as soon as they are as awaited. Unavailable: they do not become so."""
        end = time.monotonic() + _SECONDS
        while not is_shown(self._picture.lines):
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                shown = " / ".join(line.strip() for line in self._picture.lines if line.strip())
                raise Unavailable(f"the screen shows {shown[:300]}")
        while self._read(min(_QUIET_SECONDS, max(end - time.monotonic(), 0))):
            pass
        return self._picture.lines

    def _read(self, seconds: float) -> bool:
        """Draws what the program sends next. False: it has ended, or sends nothing in time."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return False
        try:
            output = os.read(self._terminal, 65_536)
        except OSError:
            return False
        self._picture.feed(self._decoder.decode(output))
        return True


@contextmanager
def on_screen(
    command: Sequence[str | Path], environment: Mapping[str, str]
) -> Generator[Screen, None, None]:
    """Starts a program on a new terminal, and ends it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
        preexec_fn=own_terminal,
    ) as process:
        os.close(theirs)
        try:
            yield Screen(ours)
        finally:
            process.kill()
            os.close(ours)
