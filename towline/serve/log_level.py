"""Changes the log level of a running process through a file in its data directory."""

from pathlib import Path

import structlog

from core.runtime.atomic_files import write_atomically
from core.runtime.clock import Clock
from core.runtime.logs import set_level
from towline.settings import LogLevel

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
_NAME = "log-level"
_MAX_BYTES = 64


def request_level(data: Path, level: LogLevel) -> None:
    """Requests a log level from the process that uses this data directory, until it restarts."""
    write_atomically(data / _NAME, f"{level}\n".encode())


class LogLevelFollower:
    """Follows the requested log level; starts with the level of the settings."""

    def __init__(self, data: Path, configured: LogLevel, clock: Clock) -> None:
        self._file = data / _NAME
        self._level = configured
        self._clock = clock

    async def follow(self) -> None:
        """Reads the file every 2 s; first deletes a request to an earlier process."""
        self._file.unlink(missing_ok=True)
        while True:
            await self._clock.sleep(POLL_SECONDS)
            requested = self._requested_level()
            if requested is not None and requested is not self._level:
                self._level = requested
                set_level(requested)
                log.warning("log level changed", action="log.level", least=requested.value)

    def _requested_level(self) -> LogLevel | None:
        try:
            with self._file.open() as file:
                return LogLevel(file.read(_MAX_BYTES).strip())
        except (OSError, ValueError):
            return None
