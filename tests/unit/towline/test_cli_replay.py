"""Replaying a recording: in its own time, and without what a terminal would obey."""

import json
from typing import Any

import pytest

from towline.cli import replay
from towline.cli.replay import lines_of, plain, play

ABOUT = {"version": 2, "title": "dev: create pods/exec a/box", "towline": {"user": "ann"}}


class FakeApi:
    """Gives a recording in parts of so many characters."""

    def __init__(self, text: str, size: int) -> None:
        self._text, self._size = text, size

    def ask(self, document: str, /, **variables: Any) -> dict[str, Any]:
        start = variables["offset"]
        part = self._text[start : start + self._size]
        end = start + self._size
        more = end if end < len(self._text) else None
        return {"sessionRecording": {"data": part, "next": more, "ongoing": False}}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_lines_are_whole_however_they_come(size: int) -> None:
    """A part may end in the middle of a line."""
    text = '{"version":2}\n[1.0,"o","a"]\n[2.0,"o","b"]\n'
    assert list(lines_of(FakeApi(text, size), "x")) == text.splitlines()


def test_a_session_is_shown_in_its_own_time() -> None:
    """Quicker if asked for; long pauses are cut short, input and resizes are not shown."""
    events = [[1.0, "o", "a"], [1.5, "i", "secret"], [2.0, "o", "b"], [60.0, "o", "c"]]
    lines = iter([json.dumps(one) for one in (ABOUT, *events)])
    shown: list[str] = []
    paused: list[float] = []
    play(lines, 2.0, raw=False, show=shown.append, pause=paused.append)
    assert shown == ["dev: create pods/exec a/box by ann\n", "a", "b", "c"]
    assert paused == [0.5, 0.5, replay.MAX_PAUSE_SECONDS]


def test_raw_shows_what_the_terminal_got() -> None:
    """All of it and nothing else, at once."""
    lines = iter([json.dumps(ABOUT), json.dumps([1.0, "o", "\x1b[31mred\x1b[0m\r\n"])])
    shown: list[str] = []
    paused: list[float] = []
    play(lines, 0, raw=True, show=shown.append, pause=paused.append)
    assert (shown, paused) == (["\x1b[31mred\x1b[0m\r\n"], [])


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("\x1b[31mred\x1b[0m\r\nnext", "red\nnext"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGFjaw==\x1b\\x", "x"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("a\x1b[2Jb\x1b[10;10Hc", "abc"),
    ],
)
def test_escape_codes_do_not_reach_the_terminal(text: str, bare: str) -> None:
    """Neither colours nor titles, nor the clipboard."""
    assert plain(text) == bare
    assert "\x1b" not in plain(text * 3 + "\x1b")
