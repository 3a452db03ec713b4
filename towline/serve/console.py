"""Locates the built console: in the wheel, or in a checkout after `make console`."""

from pathlib import Path

_CONSOLE_FOLDERS = (
    Path(__file__).parents[1] / "console",
    Path(__file__).parents[2] / "console" / "dist",
)


def console_folder() -> Path | None:
    """Folder of the built console; None if it was not built."""
    return next((folder for folder in _CONSOLE_FOLDERS if (folder / "index.html").is_file()), None)
