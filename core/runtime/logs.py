"""Logs: one line per event, as text on a terminal and as JSON elsewhere, without secrets."""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

# These libraries log headers, which contain tokens.
_QUIET_LIBRARIES = ("hpack",)
_TOKEN = re.compile(r"\btw[a-z]_[0-9A-Za-z]{8,}|(?<=://)[^/@\s]+(?=@)|(?i:bearer\s+)[\w.~+/-]+=*")


def redact(text: str) -> str:
    """Redacts tokens, URL credentials and bearer headers."""
    return _TOKEN.sub("[redacted]", text)


_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


_DebugLogger: Any = structlog.make_filtering_bound_logger(logging.DEBUG)


class _LevelledLogger(_DebugLogger):
    """A logger whose level can change at run time, because loggers are cached."""

    min_level = logging.INFO

    def _proxy_to_logger(self, method_name: str, *args: object, **values: object) -> object:
        if _NUMBERS.get(method_name, logging.CRITICAL) >= _LevelledLogger.min_level:
            return super()._proxy_to_logger(method_name, *args, **values)
        return None


class _LossyStream:
    """A stream that ignores write errors: a full disk must not stop the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes, ignoring errors."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flushes, ignoring errors."""
        with suppress(OSError):
            self._stream.flush()


def set_level(level: str) -> None:
    """Sets the lowest level to log: debug, info, warning or error."""
    _LevelledLogger.min_level = logging.getLevelNamesMapping()[level.upper()]


def configure(level: str = "info", *, json: bool | None = None) -> None:
    """Configures logging of the process; default format is JSON, or text on a terminal."""
    as_json = not sys.stderr.isatty() if json is None else json
    set_level(level)
    renderer: object = (
        structlog.processors.JSONRenderer()
        if as_json
        # The default formatter prints local variables of each frame, which may contain secrets.
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    common: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
        _redact_values,
    ]
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *common, renderer],
        wrapper_class=_LevelledLogger,
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _LossyStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    _configure_libraries(common, renderer)


def _configure_libraries(common: list[Any], renderer: Any) -> None:
    """Sends the log records of libraries through the same format and redaction."""
    handler = logging.StreamHandler(cast(TextIO, _LossyStream(sys.stderr)))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *common],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def _redact_values(
    _: object, __: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    return {k: redact(v) if isinstance(v, str) else v for k, v in event.items()}
