"""Secrets for programs that need a file path, held in memory instead of on disk."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def secret_path(text: str | bytes | None) -> Generator[str | None]:
    """Provides a path with the text, readable only by this user; None for None."""
    if text is None:
        yield None
        return
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        _write_all(descriptor, text.encode() if isinstance(text, str) else text)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
