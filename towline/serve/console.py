"""Where the built console lies: in the wheel, or in a checkout after `make console`."""

from pathlib import Path

_PLACES = (
    Path(__file__).parents[1] / "console",
    Path(__file__).parents[2] / "console" / "dist",
)


def console_folder() -> Path | None:
    """The folder of the built console; None: it was not built."""
    return next((place for place in _PLACES if (place / "index.html").is_file()), None)
