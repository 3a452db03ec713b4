"""`towline audit replay`: a recorded terminal session, as it was or as a file."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import printable, say
from towline.cli.session import Api, connect

LONGEST_PAUSE = 2.0
_SHOWN = frozenset("om")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x1b", re.DOTALL
)


def replay(
    context: typer.Context,
    request: Annotated[
        str, typer.Argument(metavar="ID", help="requestId of the session's row in the trail.")
    ],
    speed: Annotated[
        float, typer.Option(min=0, help="How many times as fast; 0 is at once.")
    ] = 1.0,
    save: Annotated[Path | None, typer.Option(help="Write it to a file instead.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Let the session's escape codes reach the terminal.")
    ] = False,
) -> None:
    """Show a recorded terminal session. The file is asciicast v2, as asciinema plays it.

    \b
    Example:
      towline audit replay 4f1c2a9e0b7d4c6f8a3e5d2b1c0f9e8d --speed 4
    """
    lines = lines_of(connect(context), request)
    if save is not None:
        save.write_text("".join(f"{line}\n" for line in lines))
        say(f"saved in {save}")
        return
    play(lines, speed, raw=raw, show=_show, pause=time.sleep)


def lines_of(api: Api, request: str) -> Iterator[str]:
    """The lines of a recording, asked for part by part."""
    rest, offset = "", 0
    while offset is not None:
        answer = api.ask(documents.RECORDING, id=request, offset=offset)["sessionRecording"]
        *whole, rest = (rest + answer["data"]).split("\n")
        yield from whole
        offset = answer["next"]


def play(
    lines: Iterator[str],
    speed: float,
    *,
    raw: bool,
    show: Callable[[str], None],
    pause: Callable[[float], None],
) -> None:
    """Show what the terminal showed, in its own time, long pauses cut short."""
    about = json.loads(next(lines))
    if not raw:
        show(f"{printable(about['title'])} by {printable(about['towline']['user'])}\n")
    last = 0.0
    for line in lines:
        at, code, text = json.loads(line)
        if code in _SHOWN:
            if speed:
                pause(min((at - last) / speed, LONGEST_PAUSE))
            last = at
            show(text if raw else plain(text))


def plain(text: str) -> str:
    """Text without anything that a terminal obeys but the ends of lines."""
    bare = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(printable(line) for line in bare.split("\n"))


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
