"""Secrets for programs that insist on a path: memory of this process, no file on any disk."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def secret_path(text: str | bytes | None) -> Generator[str | None]:
    """A path that holds the text inside the `with`, readable by this user only; None for None."""
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
