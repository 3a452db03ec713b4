"""TLS to the API server, with the authorities and client certificates that are on disk now."""

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.trust_files import file_versions

log = structlog.get_logger(__name__)

TlsSource = Callable[[], ssl.SSLContext]
"""Returns the context for a new connection: the same one as before, or one with new files."""


_CHECK_FILES_EVERY_S = 1.0


def _no_pair() -> object:
    return None


class RotatedTls:
    """Loads a context again after its source has changed: a file, or the pair of an exec plugin.

    Files are compared at most once a second, since each request needs the context. If the new files
    are unusable, for example a certificate whose key is not written yet, the last context remains
    until the next change.
    """

    def __init__(
        self,
        load: TlsSource,
        files: Callable[[], Iterable[Path]],
        clock: Clock,
        pair: Callable[[], object] = _no_pair,
    ) -> None:
        self._load, self._files, self._pair = load, files, pair
        self._clock = clock
        self._context = load()
        self._loaded_pair = pair()
        self._versions = file_versions(files())
        self._check_at = clock.monotonic() + _CHECK_FILES_EVERY_S

    def context(self) -> ssl.SSLContext:
        now, pair = self._clock.monotonic(), self._pair()
        if now >= self._check_at or pair != self._loaded_pair:
            self._check_at, versions = now + _CHECK_FILES_EVERY_S, file_versions(self._files())
            if versions != self._versions or pair != self._loaded_pair:
                self._versions, self._loaded_pair = versions, pair
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = self._load()
            log.info("certificates read again")
        except (OSError, ValueError, TowlineError) as error:
            log.warning("certificates cannot be read again", error=str(error))
