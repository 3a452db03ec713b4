"""Aggregates refusals in the audit log: only the first ones of a minute are single entries."""

from dataclasses import dataclass, replace

from controlplane.platform.audit_entry import AuditEntry
from core.runtime.clock import Clock

WINDOW_SECONDS = 60.0
MAX_SOURCES = 1000
OTHER_SOURCES = "elsewhere"


@dataclass(slots=True)
class _SourceWindow:
    """Refusals of one source in its present minute, after the first."""

    until: float
    last: AuditEntry
    written: int = 1
    counted: int = 0


class RefusalAggregator:
    """Writes the first `max_entries` refusals of each source per minute as entries.

    Later refusals of that minute become one entry with a count. Sources beyond `MAX_SOURCES` are
    counted as one source.
    """

    def __init__(self, clock: Clock, max_entries: int = 1) -> None:
        self._clock, self._max_entries = clock, max_entries
        self._sources: dict[str, _SourceWindow] = {}

    def record(self, entry: AuditEntry, source: str | None = None) -> AuditEntry | None:
        """The entry to write for a refusal now; None if it is only counted.

        `source` defaults to the entry's network address.
        """
        source = entry.source if source is None else source
        if source not in self._sources and len(self._sources) >= MAX_SOURCES:
            source = OTHER_SOURCES
        window = self._sources.get(source)
        if window is not None:
            window.last = entry
            if window.written < self._max_entries:
                window.written += 1
                return entry
            window.counted += 1
            return None
        self._sources[source] = _SourceWindow(self._clock.monotonic() + WINDOW_SECONDS, entry)
        return entry

    def pop_summaries(self, *, include_current: bool = False) -> list[AuditEntry]:
        """Counting entries of sources whose minute is over; these sources are dropped."""
        now = self._clock.monotonic()
        ended_sources = [
            name for name, source in self._sources.items() if include_current or source.until <= now
        ]
        windows = [(name, self._sources.pop(name)) for name in ended_sources]
        return [_summary_entry(name, source) for name, source in windows if source.counted]


def _summary_entry(name: str, window: _SourceWindow) -> AuditEntry:
    detail = {"requests": window.counted, "user_agent": window.last.detail.get("user_agent", "")}
    source = name if name == OTHER_SOURCES else window.last.source
    return replace(window.last, source=source, detail=detail)
