"""TLS to the API server, with the authorities and client certificates that are on disk now."""

import ssl
from collections.abc import Callable

import structlog

from core.errors import TowlineError

log = structlog.get_logger(__name__)

TlsSource = Callable[[], ssl.SSLContext]
"""Returns the context for a new connection: the same one as before, or one with new files."""


class RotatedTls:
    """Loads a context again after its source has changed, such as rotated files.

    If the new files are unusable, for example a certificate whose key is not written yet, the last
    context remains until the next change.
    """

    def __init__(self, load: TlsSource, version: Callable[[], object]) -> None:
        self._load, self._find_version = load, version
        self._context = load()
        self._version = version()

    def context(self) -> ssl.SSLContext:
        version = self._find_version()
        if version != self._version:
            self._version = version
            try:
                self._context = self._load()
                log.info("certificates read again")
            except (OSError, ValueError, TowlineError) as error:
                log.warning("certificates cannot be read again", error=str(error))
        return self._context
