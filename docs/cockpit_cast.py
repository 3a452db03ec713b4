"""Records the cockpit for the documentation, over a small fleet in memory.

Run `.venv/bin/python -m docs.cockpit_cast`. It writes a cast for asciinema (asciicast v2), from a
terminal of its own, and a still as SVG.
"""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from docs.demo_fleet import FAILING, DemoFleet
from towline.cli.cockpit.app import Cockpit
from towline.cli.cockpit.object_actions import ActionMenu

_IMAGES = Path(__file__).parent / "images"
CAST, STILL = _IMAGES / "cockpit.cast", _IMAGES / "cockpit.svg"
_COLUMNS, _ROWS = 100, 24
_SECONDS = 30
_READING_SECONDS = 1.5
_ESCAPES = re.compile(r"\x1b(\[[0-9;?=>$]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")
# Textual names a font of another host; browsers use their own instead.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_STEPS = (
    ("9 of 9 services", "p"),
    ("only problems", "\r"),
    ("Deployment", "x"),
    ("Restart Deployment", "\r"),
    ("restartedAt", "y"),
    ("Done.", "q"),
    ("1 of 9 services", "p"),
    ("9 of 9 services", "q"),
)
"""Texts on the screen, and the key that follows each."""


def record() -> str:
    """Runs the cockpit in a terminal, presses the keys, and returns the cast."""
    header = {
        **{"version": 2, "width": _COLUMNS, "height": _ROWS, "idle_time_limit": 2},
        **{"title": "towline ui", "env": {"TERM": "xterm-256color"}},
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    argv = [sys.executable, "-m", "docs.cockpit_cast", "run"]
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "",
        "TEXTUAL_ANIMATIONS": "none",
    }
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(argv, env=environment, **terminal) as process:
        os.close(theirs)
        try:
            events = list(_played(ours))
        finally:
            process.terminate()
            os.close(ours)
    start = events[0][0]
    lines = [[round(at - start, 3), "o", text] for at, text in events]
    return "".join(json.dumps(line) + "\n" for line in (header, *lines))


def _played(terminal: int) -> Iterator[tuple[float, str]]:
    """Yields the output with its time, and presses each key some time after its text."""
    for text, key in _STEPS:
        shown = ""
        while text not in shown:
            at, part = _read(terminal, _SECONDS)
            shown += _ESCAPES.sub("", part)
            yield at, part
        end = time.monotonic() + _READING_SECONDS
        while (left := end - time.monotonic()) > 0 and _is_readable(terminal, left):
            yield _read(terminal, left)
        os.write(terminal, key.encode())


def _is_readable(terminal: int, seconds: float) -> bool:
    return bool(select.select([terminal], [], [], seconds)[0])


def _read(terminal: int, seconds: float) -> tuple[float, str]:
    if not _is_readable(terminal, seconds):
        raise TimeoutError(f"the cockpit was silent for {seconds} s")
    return time.monotonic(), os.read(terminal, 1 << 16).decode(errors="replace")


async def still() -> str:
    """Opens the actions on the failing workload, and returns the screen as SVG."""
    app = Cockpit(DemoFleet(), FAILING)
    async with asyncio.timeout(_SECONDS), app.run_test(size=(_COLUMNS, _ROWS)) as pilot:
        for key, text in (("", FAILING), ("enter", "shop"), ("x", "Restart Deployment")):
            if key:
                await pilot.press(key)
            while text not in _text_of(app):
                await pilot.pause(0.05)
        assert isinstance(app.screen, ActionMenu)
        await pilot.pause()
        return _FONTS.sub("", app.export_screenshot(title="towline ui")) + "\n"


def _text_of(app: Cockpit) -> str:
    return re.sub(r"<[^>]*>", "", app.export_screenshot()).replace("&#160;", " ")


def main(words: list[str]) -> None:
    """Runs the cockpit if `run` is given, else writes both files."""
    if words == ["run"]:
        Cockpit(DemoFleet()).run()
        return
    CAST.write_text(record())
    STILL.write_text(asyncio.run(still()))


if __name__ == "__main__":
    main(sys.argv[1:])
