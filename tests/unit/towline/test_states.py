"""Colours and shapes of states: one list for the terminal and the console."""

import re
from pathlib import Path

import pytest

from towline.cli.shell.states import (
    OBJECT_TONES,
    SERVICE_TONES,
    SHAPES,
    shape_colour,
    state_colour,
    with_shape,
)

CONSOLE = (Path(__file__).parents[3] / "console" / "src" / "ui" / "states.ts").read_text()


def tones_of(table: str) -> dict[str, str]:
    """Tones of a table of the console."""
    tones = dict(re.findall(r'^  (\w+): state\("(\w+)"', CONSOLE, re.MULTILINE))
    (body,) = re.findall(rf"^const {table}: [^{{]*\{{(.*?)^\}};", CONSOLE, re.MULTILINE | re.DOTALL)
    return {word: tones[name] for word, name in re.findall(r"(\w+): STATES\.(\w+)", body)}


def test_states_have_the_tones_of_the_console() -> None:
    assert tones_of("SERVICE") == SERVICE_TONES
    assert tones_of("COMPONENT") == OBJECT_TONES


def test_tones_have_the_shapes_of_the_console() -> None:
    (body,) = re.findall(r"^const SHAPES[^=]*= \{(.*)\};", CONSOLE, re.MULTILINE)
    assert dict(re.findall(r'(\w+): "(.)"', body)) == SHAPES


@pytest.mark.parametrize(
    ("state", "shown", "colour"),
    [
        ("FAILED", "✕ FAILED", "red"),
        ("HEALTHY", "● HEALTHY", "green"),
        ("PINNED (2 behind)", "○ PINNED (2 behind)", None),
        ("NEW_STATE", "○ NEW_STATE", None),
    ],
)
def test_a_state_is_known_without_its_colour(state: str, shown: str, colour: str | None) -> None:
    assert with_shape(state, SERVICE_TONES) == shown
    assert shape_colour(shown) == colour
    assert state_colour(state) == colour


def test_only_states_are_coloured() -> None:
    assert [shape_colour(text) for text in ("", "web", "FAILED")] == [None, None, None]
    assert [state_colour(text) for text in ("", "web", "ok")] == [None, None, None]
