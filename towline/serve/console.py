"""Locates the built console: in the wheel, or in a checkout after `make console`."""

from pathlib import Path

_PLACES = (
    Path(__file__).parents[1] / "console",
    Path(__file__).parents[2] / "console" / "dist",
)


def console_folder() -> Path | None:
    """Folder of the built console; None if it was not built."""
    return next((place for place in _PLACES if (place / "index.html").is_file()), None)
