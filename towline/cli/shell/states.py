"""States, their colours and their shapes in the terminal; the same as in the console."""

from collections.abc import Mapping

_COLOURS = {"ok": "green", "busy": "cyan", "warn": "yellow", "bad": "red", "idle": None}
SHAPES = {"ok": "●", "busy": "◐", "warn": "▲", "bad": "✕", "idle": "○"}
"""Shape of each tone, for terminals and eyes without colours."""

SERVICE_TONES: Mapping[str, str] = {
    "HEALTHY": "ok",
    "SYNCED": "busy",
    "STALE": "busy",
    "OUT_OF_SYNC": "warn",
    "DRIFTED": "warn",
    "PINNED": "idle",
    "AWAITING_APPROVAL": "warn",
    "DRY_RUN": "idle",
    "FAILED": "bad",
    "PAUSED": "idle",
}
OBJECT_TONES: Mapping[str, str] = {
    "RUNNING": "ok",
    "PENDING": "busy",
    "FAILED": "bad",
    "PAUSED": "idle",
}
# States of gates and others, which a table shows without their kind.
_TABLE_TONES = {
    **SERVICE_TONES,
    "OPEN": "ok",
    "PULLABLE": "ok",
    "CLOSED": "bad",
    "PENDING": "warn",
    "RUNNING": "warn",
}
_COLOURS_OF_SHAPES = {shape: _COLOURS[tone] for tone, shape in SHAPES.items()}


def state_colour(text: str) -> str | None:
    """Colour of a state in a table; None for any other text."""
    return _COLOURS.get(_TABLE_TONES.get(text, ""))


def with_shape(text: str, tones: Mapping[str, str]) -> str:
    """A state, such as `PINNED (2 behind)`, after the shape of its tone."""
    return f"{SHAPES[tones.get(text.split(' ')[0], 'idle')]} {text}"


def shape_colour(text: str) -> str | None:
    """Colour of a text that begins with a shape; None for any other text."""
    return _COLOURS_OF_SHAPES.get(text[:1])
