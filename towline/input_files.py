"""Reads files that users name on the command line; `-` is standard input."""

import sys
from pathlib import Path

from core.errors import Invalid

MAX_BYTES = 16 << 20
STDIN = Path("-")


def read_bytes(path: Path, option: str | None = None, *, limit: int = MAX_BYTES) -> bytes:
    """Reads a file. Invalid, with the option: the file is not readable, or larger than `limit`."""
    try:
        if path == STDIN:
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with path.open("rb") as file:
                content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"cannot read {path}: {reason}", field=option) from None
    if len(content) > limit:
        raise Invalid(f"{path} is larger than {limit:,} bytes", field=option)
    return content


def read_text(path: Path, option: str | None = None, *, limit: int = MAX_BYTES) -> str:
    """Reads a text file. Invalid, with the option: not readable, too large or not UTF-8."""
    try:
        return read_bytes(path, option, limit=limit).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not a text file", field=option) from None


def read_secret(path: Path | None, option: str) -> str | None:
    """Reads a secret, without trailing line ends; None without a path. Invalid: it is empty."""
    if path is None:
        return None
    if text := read_text(path, option).rstrip("\r\n"):
        return text
    raise Invalid(f"{path} is empty", field=option)
