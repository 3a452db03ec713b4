"""How much a process logs, changed while it runs by whoever may write its data folder."""

from pathlib import Path

import structlog

from fleet.runtime.clock import Clock
from fleet.runtime.files import write_whole
from fleet.runtime.logs import set_level
from towline.settings import LogLevel

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
_NAME = "log-level"
_MOST_BYTES = 64


def ask_for(data: Path, level: LogLevel) -> None:
    """Have the process that runs on this data folder log at this level, until it ends."""
    write_whole(data / _NAME, f"{level}\n".encode())


class LogLevels:
    """Follows what was asked for; without that it is the level of the settings."""

    def __init__(self, data: Path, configured: LogLevel, clock: Clock) -> None:
        self._file = data / _NAME
        self._level = configured
        self._clock = clock

    async def follow(self) -> None:
        """Look every two seconds. What was asked of an earlier process is forgotten."""
        self._file.unlink(missing_ok=True)
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            asked = self._asked()
            if asked is not None and asked is not self._level:
                self._level = asked
                set_level(asked)
                log.warning("logs at another level", action="log.level", least=asked.value)

    def _asked(self) -> LogLevel | None:
        try:
            with self._file.open() as file:
                return LogLevel(file.read(_MOST_BYTES).strip())
        except (OSError, ValueError):
            return None
