"""Logs: one line an event, for people on a terminal, as JSON elsewhere; secrets never."""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

# What is read and written there are headers, tokens among them.
_UNHEARD = ("hpack",)
_TOKEN = re.compile(r"\btw[uasb]_[0-9A-Za-z]{8,}|(?<=://)[^/@\s]+(?=@)|(?i:bearer\s+)[\w.~+/-]+=*")


def redact(text: str) -> str:
    """The text without tokens, URL credentials and bearer headers."""
    return _TOKEN.sub("[redacted]", text)


_NUMBERS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}


_Everything: Any = structlog.make_filtering_bound_logger(logging.DEBUG)


class _Levelled(_Everything):
    """Its level may change while it is in use: loggers are made once and kept."""

    least = logging.INFO

    def _proxy_to_logger(self, method_name: str, *args: Any, **values: Any) -> Any:
        if _NUMBERS.get(method_name, logging.CRITICAL) >= _Levelled.least:
            return super()._proxy_to_logger(method_name, *args, **values)
        return None


class _Lossy:
    """A stream that swallows what cannot be written: a full disk must end no work, only the log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write, if that is possible."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush, if that is possible."""
        with suppress(OSError):
            self._stream.flush()


def set_level(level: str) -> None:
    """Log what is at least this important from now on: debug, info, warning or error."""
    _Levelled.least = logging.getLevelNamesMapping()[level.upper()]


def configure(level: str = "info", *, json: bool | None = None) -> None:
    """Set up logging for the process; JSON unless standard error is a terminal."""
    as_json = not sys.stderr.isatty() if json is None else json
    set_level(level)
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        # The default formatter prints local variables of each frame, secrets among them.
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
        wrapper_class=_Levelled,
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Lossy(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    _configure_libraries(common, renderer)


def _configure_libraries(common: list[Any], renderer: Any) -> None:
    """What libraries have to say is told in the same form, and as clean."""
    handler = logging.StreamHandler(cast(TextIO, _Lossy(sys.stderr)))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *common],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in _UNHEARD:
        logging.getLogger(name).setLevel(logging.WARNING)


def _redact_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {k: redact(v) if isinstance(v, str) else v for k, v in event.items()}
