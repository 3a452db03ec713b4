"""Aggregates refusals in the audit log: only the first ones of a minute are single entries."""

from dataclasses import dataclass, replace

from controlplane.domain.ledger import AuditEntry
from core.runtime.clock import Clock

WINDOW_SECONDS = 60.0
MAX_SOURCES = 1000
OTHER_SOURCES = "elsewhere"


@dataclass(slots=True)
class _Source:
    """Refusals of one source in its present minute, after the first."""

    until: float
    last: AuditEntry
    listed: int = 1
    more: int = 0


class RefusalAggregator:
    """Writes the first `listed` refusals of each source per minute as entries.

    Later refusals of that minute become one entry with a count. Sources beyond `MAX_SOURCES` are
    counted as one source.
    """

    def __init__(self, clock: Clock, listed: int = 1) -> None:
        self._clock, self._listed = clock, listed
        self._sources: dict[str, _Source] = {}

    def take(self, entry: AuditEntry, source: str | None = None) -> AuditEntry | None:
        """The entry to write for a refusal now; None if it is only counted.

        `source` defaults to the entry's network address.
        """
        source = entry.source if source is None else source
        if source not in self._sources and len(self._sources) >= MAX_SOURCES:
            source = OTHER_SOURCES
        known = self._sources.get(source)
        if known is not None:
            known.last = entry
            if known.listed < self._listed:
                known.listed += 1
                return entry
            known.more += 1
            return None
        self._sources[source] = _Source(self._clock.monotonic() + WINDOW_SECONDS, entry)
        return entry

    def due(self, *, all_of_them: bool = False) -> list[AuditEntry]:
        """Counting entries of sources whose minute is over; these sources are dropped."""
        now = self._clock.monotonic()
        over = [
            name for name, source in self._sources.items() if all_of_them or source.until <= now
        ]
        ended = [(name, self._sources.pop(name)) for name in over]
        return [_counted(name, source) for name, source in ended if source.more]


def _counted(name: str, refusals: _Source) -> AuditEntry:
    detail = {"requests": refusals.more, "user_agent": refusals.last.detail.get("user_agent", "")}
    source = name if name == OTHER_SOURCES else refusals.last.source
    return replace(refusals.last, source=source, detail=detail)
