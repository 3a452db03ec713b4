"""`towline audit replay`: plays or saves a recorded terminal session."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from towline.cli.reports.generated import recording
from towline.cli.shell.output import escape_controls, say
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

MAX_PAUSE_SECONDS = 2.0
_SHOWN = frozenset("om")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x1b", re.DOTALL
)


def replay(
    context: typer.Context,
    request: Annotated[
        str, typer.Argument(metavar="ID", help="requestId of the session in the audit log.")
    ],
    speed: Annotated[float, typer.Option(min=0, help="Playback speed; 0 means no pauses.")] = 1.0,
    save: Annotated[Path | None, typer.Option(help="Save to a file instead of playing.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Pass the session's escape codes to the terminal.")
    ] = False,
) -> None:
    """Play a recorded terminal session. Saved files are asciicast v2, which asciinema plays.

    \b
    Example:
      towline audit replay 4f1c2a9e0b7d4c6f8a3e5d2b1c0f9e8d --speed 4
    """
    lines = lines_of(connect(context), request)
    if save is not None:
        save.write_text("".join(f"{line}\n" for line in lines))
        say(f"saved in {save}")
        return
    play(lines, speed, raw=raw, show=_write_out, pause=time.sleep)


def lines_of(api: GraphQLApi, request: str) -> Iterator[str]:
    """Yields the lines of a recording; fetches it in parts."""
    partial, offset = "", 0
    while offset is not None:
        part = recording(api, request, offset)
        *complete, partial = (partial + part["data"]).split("\n")
        yield from complete
        offset = part["next"]


def play(
    lines: Iterator[str],
    speed: float,
    *,
    raw: bool,
    show: Callable[[str], None],
    pause: Callable[[float], None],
) -> None:
    """Plays the output of a session with its timing; shortens pauses to `MAX_PAUSE_SECONDS`."""
    header = json.loads(next(lines))
    if not raw:
        show(
            f"{escape_controls(header['title'])} by {escape_controls(header['towline']['user'])}\n"
        )
    last = 0.0
    for line in lines:
        seconds, code, text = json.loads(line)
        if code in _SHOWN:
            if speed:
                pause(min((seconds - last) / speed, MAX_PAUSE_SECONDS))
            last = seconds
            show(text if raw else plain(text))


def plain(text: str) -> str:
    """Removes escape codes and control characters, except line ends."""
    without_escapes = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(escape_controls(line) for line in without_escapes.split("\n"))


def _write_out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
